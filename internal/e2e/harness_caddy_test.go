package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// instance is one Caddy on its own ports and in its own folders. It can be stopped, killed and started again on the same
// store.
type instance struct {
	t     testing.TB
	dir   string
	admin string // base URL of the admin API
	site  string // base URL of the site
	ports struct{ admin, site int }
	env   []string
	// launch starts the process, in place of its Start method when it shall begin in another way.
	launch func(*exec.Cmd) error

	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	log  *logBuffer
}

// newInstance prepares an instance without starting it. What it started last is ended with the test.
func newInstance(t testing.TB) *instance {
	t.Helper()
	c := &instance{t: t, dir: t.TempDir(), log: newLogBuffer(), launch: (*exec.Cmd).Start}
	c.ports.admin, c.ports.site = freePort(t), freePort(t)
	c.admin = fmt.Sprintf("http://127.0.0.1:%d", c.ports.admin)
	c.site = fmt.Sprintf("http://127.0.0.1:%d", c.ports.site)
	t.Cleanup(func() {
		c.term()
		for _, sign := range []string{"panic", "DATA RACE", "fatal error:"} {
			if line, found := c.log.find(sign); found { // the process has ended, the log is whole
				t.Errorf("the server's log has %q: %s", sign, line)
			}
		}
		if t.Failed() {
			t.Logf("log of the server, its end:\n%s", c.log.tail(40))
		}
	})
	return c
}

// startCaddy starts a new instance with the site's body, see caddyfile.
func startCaddy(t testing.TB, site string) *instance {
	t.Helper()
	c := newInstance(t)
	c.start(c.caddyfile("", site))
	return c
}

// caddyfile wraps the body of the site, and that of the global anvil option unless it is empty, into a whole Caddyfile.
func (c *instance) caddyfile(global, site string) string {
	return fmt.Sprintf("%s\nhttp://127.0.0.1:%d {\n%s\n}\n", c.options(global), c.ports.site, site)
}

// options are the global options of a Caddyfile.
func (c *instance) options(anvil string) string {
	if anvil != "" {
		anvil = "\tanvil {\n" + anvil + "\n\t}\n"
	}
	return fmt.Sprintf("{\n\tadmin 127.0.0.1:%d\n\tpersist_config off\n\tauto_https off\n\tdefault_bind 127.0.0.1\n%s}\n", c.ports.admin, anvil)
}

func (c *instance) command(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+c.dir+"/data", "XDG_CONFIG_HOME="+c.dir+"/config", "HOME="+c.dir)
	cmd.Env = append(cmd.Env, c.env...)
	return cmd
}

func (c *instance) write(name, text string) string {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// storePath is where the store is when the configuration does not say.
func (c *instance) storePath() string {
	return filepath.Join(c.dir, "data", "caddy", "anvil", "anvil.db")
}

// start runs the server and returns when it serves.
func (c *instance) start(caddyfile string) {
	c.t.Helper()
	for until := time.Now().Add(patience); ; {
		from := c.log.len()
		err := c.tryStart(caddyfile)
		switch {
		case err == nil:
			return
		// A process that is just being started holds copies of all sockets for a moment, closed ones too.
		case time.Now().After(until) || !c.log.hasSince(from, syscall.EADDRINUSE.Error()):
			c.t.Fatalf("starting caddy: %v\n%s", err, c.log.tail(30))
		}
	}
}

// tryStart returns an error when the process ends instead of serving.
func (c *instance) tryStart(caddyfile string) error {
	c.t.Helper()
	client.CloseIdleConnections() // those to a process before this one are dead, and who sends first would learn it
	path := c.write("Caddyfile", caddyfile)
	from := c.log.len()
	c.cmd = c.command("run", "--config", path, "--adapter", "caddyfile")
	stderr, err := c.cmd.StderrPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	c.cmd.Stdout = c.cmd.Stderr
	if err := c.launch(c.cmd); err != nil {
		c.t.Fatal(err)
	}
	c.done = make(chan struct{})
	go func() {
		defer close(c.done)
		c.log.fill(stderr)
		_ = c.cmd.Wait() // a killed process is no failure here
	}()
	timeout := time.After(time.Minute) // more than a configuration waits for its store
	for {
		changed := c.log.changed()
		if c.log.hasSince(from, "serving initial configuration") {
			return nil
		}
		select {
		case <-changed:
		case <-c.done:
			return errors.New("the process ended")
		case <-timeout:
			c.kill9()
			return errors.New("it does not serve after a minute")
		}
	}
}

func (c *instance) running() bool {
	if c.done == nil {
		return false
	}
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

func (c *instance) pid() int { return c.cmd.Process.Pid }

// kill9 ends the process as a crash would, and waits until it is gone.
func (c *instance) kill9() {
	if c.running() {
		_ = c.cmd.Process.Kill()
		<-c.done
	}
}

// signalTerm asks the process to end and does not wait.
func (c *instance) signalTerm() { _ = c.cmd.Process.Signal(syscall.SIGTERM) }

// term asks the process to end and waits for it; it is killed when it does not.
func (c *instance) term() {
	if !c.running() {
		return
	}
	c.signalTerm()
	select {
	case <-c.done:
	case <-time.After(time.Minute):
		c.t.Error("the server did not end within a minute of SIGTERM")
		c.kill9()
	}
}

// openFiles counts the process's file descriptors; paths that have part in their name are counted apart.
func (c *instance) openFiles(part string) (all, named int) {
	c.t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", c.pid())
	entries, err := os.ReadDir(dir)
	if err != nil {
		c.t.Skipf("counting open files needs /proc: %v", err)
	}
	for _, e := range entries {
		if target, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && strings.Contains(target, part) {
			named++
		}
	}
	return len(entries), named
}

// memory is the process's resident size in bytes.
func (c *instance) memory() int64 {
	c.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.pid()))
	if err != nil {
		c.t.Skipf("reading memory use needs /proc: %v", err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kib << 10
		}
	}
	c.t.Fatal("no VmRSS line")
	return 0
}

// goroutines counts the process's goroutines through Caddy's profiler.
func (c *instance) goroutines() int {
	c.t.Helper()
	text := c.get("/debug/pprof/goroutine?debug=1")
	var n int
	if _, err := fmt.Sscanf(text, "goroutine profile: total %d", &n); err != nil {
		c.t.Fatalf("reading the goroutine profile: %v", err)
	}
	return n
}

// logged waits for a line of the log that has all the parts. What the server did can be seen elsewhere, in the store or at
// an upstream, before the line about it is here.
func (c *instance) logged(parts ...string) (line string) {
	c.t.Helper()
	waitFor(c.t, patience, fmt.Sprintf("a log line with %q", parts), func() bool {
		var found bool
		line, found = c.log.find(parts...)
		return found
	})
	return line
}

// wholeLog returns the log up to now. Lines come in order, so when that of a fresh admin request is here, all are that
// were written before it.
func (c *instance) wholeLog() *logBuffer {
	c.t.Helper()
	mark := fmt.Sprintf("whole-log-%d", c.log.len())
	c.get("/anvil/stats?" + mark)
	c.logged(mark)
	return c.log
}

// logBuffer keeps the lines that the server logged.
type logBuffer struct {
	mu    sync.Mutex
	lines []string
	next  chan struct{} // closed and replaced at each line
}

func newLogBuffer() *logBuffer { return &logBuffer{next: make(chan struct{})} }

func (l *logBuffer) fill(r io.Reader) {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			l.mu.Lock()
			l.lines = append(l.lines, strings.TrimRight(line, "\n"))
			close(l.next)
			l.next = make(chan struct{})
			l.mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}

func (l *logBuffer) changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next
}

func (l *logBuffer) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.lines)
}

func (l *logBuffer) since(n int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.lines[n:]...)
}

func (l *logBuffer) hasSince(n int, part string) bool {
	for _, line := range l.since(n) {
		if strings.Contains(line, part) {
			return true
		}
	}
	return false
}

// find returns the first line that has all the parts.
func (l *logBuffer) find(parts ...string) (string, bool) {
	for _, line := range l.since(0) {
		if containsAll(line, parts) {
			return line, true
		}
	}
	return "", false
}

func (l *logBuffer) count(part string) int {
	n := 0
	for _, line := range l.since(0) {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

func (l *logBuffer) tail(n int) string {
	lines := l.since(0)
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	var b bytes.Buffer
	for _, line := range lines {
		if len(line) > 2000 {
			line = line[:2000] + "…"
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}
