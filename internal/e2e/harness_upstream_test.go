package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/testport"
)

// hit is one request as it came over the wire.
type hit struct {
	at    time.Time
	conn  int      // number of the connection, from 1
	line  string   // request line
	lines []string // header lines, untouched and in order
	body  []byte
}

// header returns the value of the first line of that name.
func (h hit) header(name string) string {
	if v := h.headers(name); len(v) > 0 {
		return v[0]
	}
	return ""
}

func (h hit) headers(name string) []string {
	var out []string
	for _, line := range h.lines {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.EqualFold(k, name) {
			out = append(out, strings.TrimSpace(v))
		}
	}
	return out
}

func (h hit) uri() string { return strings.Split(h.line, " ")[1] }

func (h hit) jobID() string { return h.header("Anvil-Job-Id") }

// answer is what the upstream does with a request; the zero answer is an empty 200.
type answer struct {
	status int
	header []string // whole lines
	body   string
	delay  time.Duration
	// hang never answers, stall sends the status line and headers and then nothing, endless sends a body without end,
	// reset closes the connection without an answer.
	hang, stall, endless, reset bool
	closing                     bool // closes the connection after the answer
}

// upstream is the user's own handler: a raw HTTP/1.1 server that records what it gets and answers by script.
type upstream struct {
	t      testing.TB
	ln     net.Listener
	script func(n int, h hit) answer // n counts hits from 1

	mu      sync.Mutex
	got     []hit
	conns   int
	open    map[net.Conn]bool
	changed chan struct{}
	quit    chan struct{}
	wg      sync.WaitGroup
}

// newUpstream starts an upstream. A nil script answers 200 to everything.
func newUpstream(t testing.TB, script func(n int, h hit) answer) *upstream {
	t.Helper()
	return newUpstreamOn(t, listen(t), script)
}

// newUpstreamAt starts one on a port that was free.
func newUpstreamAt(t testing.TB, port int) *upstream {
	t.Helper()
	var ln net.Listener
	// A process that is just being started holds copies of all sockets for a moment, closed ones too.
	waitFor(t, patience, "the port being free", func() (free bool) {
		var err error
		ln, err = testport.On(port)
		return err == nil
	})
	return newUpstreamOn(t, ln, nil)
}

func newUpstreamOn(t testing.TB, ln net.Listener, script func(n int, h hit) answer) *upstream {
	if script == nil {
		script = func(int, hit) answer { return answer{} }
	}
	u := &upstream{
		t: t, ln: ln, script: script,
		open: map[net.Conn]bool{}, changed: make(chan struct{}), quit: make(chan struct{}),
	}
	u.wg.Go(u.accept)
	t.Cleanup(u.close)
	return u
}

// statuses is a script: one status a hit, the last one for ever.
func statuses(list ...int) func(int, hit) answer {
	return func(n int, _ hit) answer { return answer{status: list[min(n, len(list))-1]} }
}

func (u *upstream) addr() string { return u.ln.Addr().String() }

func (u *upstream) url() string { return "http://" + u.addr() }

func (u *upstream) close() {
	u.mu.Lock()
	select {
	case <-u.quit:
	default:
		close(u.quit)
	}
	u.ln.Close()
	for c := range u.open {
		c.Close()
	}
	u.mu.Unlock()
	u.wg.Wait()
}

func (u *upstream) accept() {
	for {
		c, err := u.ln.Accept()
		if err != nil {
			return
		}
		u.mu.Lock()
		u.conns++
		n := u.conns
		u.open[c] = true
		u.mu.Unlock()
		u.wg.Go(func() {
			u.serve(c, n)
			c.Close()
			u.mu.Lock()
			delete(u.open, c)
			u.mu.Unlock()
		})
	}
}

func (u *upstream) serve(c net.Conn, conn int) {
	r := bufio.NewReader(c)
	for {
		h, err := readHit(r)
		if err != nil {
			return
		}
		h.at, h.conn = time.Now(), conn
		u.mu.Lock()
		u.got = append(u.got, h)
		n := len(u.got)
		close(u.changed)
		u.changed = make(chan struct{})
		u.mu.Unlock()
		if !u.reply(c, u.script(n, h)) {
			return
		}
	}
}

// reply reports whether the connection can be used again.
func (u *upstream) reply(c net.Conn, a answer) bool {
	if a.delay > 0 {
		select {
		case <-time.After(a.delay):
		case <-u.quit:
			return false
		}
	}
	switch {
	case a.reset:
		return false
	case a.hang:
		u.untilClosed(c)
		return false
	}
	if a.status == 0 {
		a.status = http.StatusOK
	}
	head := fmt.Sprintf("HTTP/1.1 %d %s\r\n", a.status, http.StatusText(a.status))
	for _, line := range a.header {
		head += line + "\r\n"
	}
	switch {
	case a.stall:
		_, _ = io.WriteString(c, head+"Content-Length: 100000\r\n\r\n")
		u.untilClosed(c)
		return false
	case a.endless:
		_, _ = io.WriteString(c, head+"Transfer-Encoding: chunked\r\n\r\n")
		chunk := "8000\r\n" + strings.Repeat("x", 0x8000) + "\r\n"
		for {
			if _, err := io.WriteString(c, chunk); err != nil {
				return false
			}
		}
	}
	_, err := fmt.Fprintf(c, "%sContent-Length: %d\r\n\r\n%s", head, len(a.body), a.body)
	return err == nil && !a.closing
}

// untilClosed waits until the other side has had enough.
func (u *upstream) untilClosed(c net.Conn) {
	_, _ = io.Copy(io.Discard, c)
}

var errFraming = errors.New("request has neither a length nor chunks")

func readHit(r *bufio.Reader) (hit, error) {
	line, err := readLine(r)
	if err != nil {
		return hit{}, err
	}
	h := hit{line: line}
	for {
		line, err := readLine(r)
		if err != nil {
			return hit{}, err
		}
		if line == "" {
			break
		}
		h.lines = append(h.lines, line)
	}
	switch {
	case h.header("Content-Length") != "":
		n, err := strconv.Atoi(h.header("Content-Length"))
		if err != nil {
			return hit{}, err
		}
		h.body = make([]byte, n)
		_, err = io.ReadFull(r, h.body)
		return h, err
	case h.header("Transfer-Encoding") == "chunked":
		h.body, err = io.ReadAll(httputil.NewChunkedReader(r))
		return h, err
	}
	return hit{}, errFraming
}

func readLine(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	return strings.TrimRight(line, "\r\n"), err
}

// hits returns what came so far.
func (u *upstream) hits() []hit {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]hit(nil), u.got...)
}

func (u *upstream) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.got)
}

func (u *upstream) connections() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.conns
}

// wait returns the hits as soon as there are at least n.
func (u *upstream) wait(n int, within time.Duration) []hit {
	u.t.Helper()
	timeout := time.After(within)
	for {
		u.mu.Lock()
		got, changed := append([]hit(nil), u.got...), u.changed
		u.mu.Unlock()
		if len(got) >= n {
			return got
		}
		select {
		case <-changed:
		case <-timeout:
			u.t.Fatalf("after %s the upstream has %d requests, want %d", within, len(got), n)
		}
	}
}

// jobHits counts the hits of each job.
func (u *upstream) jobHits() map[string]int {
	out := map[string]int{}
	for _, h := range u.hits() {
		out[h.jobID()]++
	}
	return out
}
