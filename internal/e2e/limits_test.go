package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// zeros is an endless body.
type zeros struct{ sent atomic.Int64 } // the client may go on writing after it has its answer

func (z *zeros) Read(p []byte) (int, error) {
	clear(p)
	z.sent.Add(int64(len(p)))
	return len(p), nil
}

func TestAGigabyteOfChunksIsRefusedAtTheLimit(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, simpleSite(up))
	accepted(t, c.site+"/hooks", hook(0))
	before := c.memory()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			body := &zeros{}
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			r, err := sendVia(&http.Client{Transport: transport, Timeout: time.Minute}, http.MethodPost, c.site+"/hooks",
				io.LimitReader(body, 1<<30), "X-Signature", sign(secret, nil))
			// The server may close while the sender still writes; then the client sees a broken pipe and no answer.
			if err == nil && (r.status != http.StatusRequestEntityTooLarge || r.Error != "body_too_large") {
				t.Errorf("got %d %s, want 413 body_too_large", r.status, r.body)
			}
			if sent := body.sent.Load(); sent > 32<<20 {
				t.Errorf("the server took %d bytes against a limit of 256 KiB", sent)
			}
		})
	}
	accepted(t, c.site+"/hooks", hook(1)) // a good one meanwhile
	wg.Wait()
	if grown := c.memory() - before; grown > 64<<20 {
		t.Errorf("memory grew by %d MiB", grown>>20)
	}
	if n := len(c.events("")); n != 2 {
		t.Errorf("%d events were stored, want the 2 good ones", n)
	}
}

func TestABodyAtTheLimitIsTakenAndOneByteMoreIsNot(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, simpleSite(up))
	limit := bytes.Repeat([]byte("a"), 256<<10)
	accepted(t, c.site+"/hooks", limit)
	if h := up.wait(1, patience)[0]; !bytes.Equal(h.body, limit) {
		t.Errorf("the upstream got %d bytes, want %d", len(h.body), len(limit))
	}
	// Raw, since an HTTP client that is still writing when the server closes may not see the answer.
	over := string(limit) + "a"
	signature := "X-Signature: " + sign(secret, []byte(over))
	chunked := fmt.Sprintf("POST /hooks HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nTransfer-Encoding: chunked\r\n%s\r\n\r\n%x\r\n%s\r\n0\r\n\r\n",
		c.ports.site, signature, len(over), over)
	for name, request := range map[string]string{"declared": c.rawPost(len(over), signature), "chunked": chunked} {
		text, closed := exchange(t, c, request)
		if !strings.HasPrefix(text, "HTTP/1.1 413 ") || !strings.Contains(text, `{"error":"body_too_large"}`) || !closed {
			t.Errorf("%s: got %q, closed %v; want 413 and the connection closed", name, text, closed)
		}
	}
	c.logged("body_too_large", "262144", "262145")
}

// exchange writes raw bytes and returns everything the server says until it closes, which it must.
func exchange(t *testing.T, c *instance, request string) (text string, closed bool) {
	t.Helper()
	conn := dial(t, c.site)
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	return string(got), err == nil
}

func (c *instance) rawPost(length int, extra ...string) string {
	head := fmt.Sprintf("POST /hooks HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: %d\r\n", c.ports.site, length)
	for _, line := range extra {
		head += line + "\r\n"
	}
	return head + "\r\n"
}

func TestADeclaredLengthOverTheLimitIsRefusedBeforeTheBody(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, simpleSite(up))
	text, closed := exchange(t, c, c.rawPost(1<<30, "Expect: 100-continue", "X-Signature: "+sign(secret, nil)))
	if !strings.HasPrefix(text, "HTTP/1.1 413 ") || !closed {
		t.Errorf("got %q, closed %v; want a 413 at once and the connection closed", text, closed)
	}
	if strings.Contains(text, "100 Continue") {
		t.Error("the sender was told to continue")
	}
}

func TestExpectContinueIsAnsweredForAGoodLength(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, simpleSite(up))
	body := hook(1)
	conn := dial(t, c.site)
	_, _ = io.WriteString(conn, c.rawPost(len(body), "Expect: 100-continue", "X-Signature: "+sign(secret, body)))
	r := bufio.NewReader(conn)
	if line, err := readLine(r); err != nil || line != "HTTP/1.1 100 Continue" {
		t.Fatalf("got %q %v, want 100 Continue", line, err)
	}
	_, _ = conn.Write(body)
	if _, err := readLine(r); err != nil {
		t.Fatal(err)
	}
	if line, err := readLine(r); err != nil || !strings.HasPrefix(line, "HTTP/1.1 202") {
		t.Errorf("got %q %v, want 202", line, err)
	}
}

func TestBytesBehindTheDeclaredLengthBelongToNoEvent(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, simpleSite(up))
	body := strings.Repeat("b", 100)
	text, _ := exchange(t, c,
		c.rawPost(100, "Connection: close", "X-Signature: "+sign(secret, []byte(body)))+body+strings.Repeat("x", 10_000))
	if !strings.Contains(text, "HTTP/1.1 202") {
		t.Errorf("got %q, want 202", text)
	}
	if h := up.wait(1, patience)[0]; string(h.body) != body {
		t.Errorf("the upstream got %d bytes, want the 100 declared", len(h.body))
	}
	c.settled(patience)
	if n := len(c.events("")); n != 1 {
		t.Errorf("%d events were stored, want 1", n)
	}
}

// stall begins webhooks that never go on.
func stall(t *testing.T, c *instance, senders int) []net.Conn {
	t.Helper()
	conns := make([]net.Conn, senders)
	for i := range conns {
		conns[i] = dial(t, c.site)
		if _, err := io.WriteString(conns[i], c.rawPost(1000, "X-Signature: "+sign(secret, nil))+"ten bytes."); err != nil {
			t.Fatal(err)
		}
	}
	return conns
}

func TestStalledBodiesBlockNobody(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, fmt.Sprintf("\tanvil /hooks demo {\n\t\tverify hmac %q\n\t\tread_timeout 10m\n\t\tdeliver %s\n\t}", secret, up.addr()))
	conns := stall(t, c, 300)
	accepted(t, c.site+"/hooks", hook(1))
	for i, conn := range conns {
		_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
		if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("a good webhook was answered only when stalled connection %d had ended: %d bytes, %v", i, n, err)
		}
	}
}

func TestStalledBodiesAreEnded(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, fmt.Sprintf("\tanvil /hooks demo {\n\t\tverify hmac %q\n\t\tread_timeout 1s\n\t\tdeliver %s\n\t}", secret, up.addr()))
	timedOut := 0
	for i, conn := range stall(t, c, 300) {
		text, err := io.ReadAll(conn)
		if err != nil && len(text) == 0 {
			t.Fatalf("stalled connection %d was not ended: %v", i, err)
		}
		if strings.HasPrefix(string(text), "HTTP/1.1 408 ") && strings.Contains(string(text), "body_timeout") {
			timedOut++
		}
	}
	if timedOut == 0 {
		t.Error("no stalled sender was told 408 body_timeout")
	}
	if n := len(c.events("")); n != 0 {
		t.Errorf("%d events were stored", n)
	}
}

// A connection that is to be kept is answered when the rest has come, at the latest after read_timeout, since the next
// request is behind it. One that is not is answered at once.
func TestARefusalThatNeedsNoBodyIsNotHeldUpByOne(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	source := func(name, timeout string) string {
		return fmt.Sprintf("\tanvil /%s %s {\n\t\tverify hmac %q\n\t\tread_timeout %s\n\t\tdeliver %s\n\t}\n", name, name, secret, timeout, up.addr())
	}
	c := startCaddy(t, source("hooks", "1s")+source("patient", "1h"))
	kept, closed := c.rawPost(1000), strings.Replace(c.rawPost(1000, "Connection: close"), "/hooks", "/patient", 1)
	put := func(head string) string { return strings.Replace(head, "POST", "PUT", 1) }
	for name, want := range map[string]struct{ head, status string }{
		"unsigned":               {kept, "401"},
		"other method":           {put(kept), "405"},
		"unsigned, to close":     {closed, "401"},
		"other method, to close": {put(closed), "405"},
	} {
		conn := dial(t, c.site)
		_, _ = io.WriteString(conn, want.head+"ten bytes.") // and the rest never comes
		if text, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 "+want.status+" ") {
			t.Errorf("%s: got %q, %v; want %s and the end of the connection", name, text, err, want.status)
		}
	}
}

func TestTooManyRequestsInFlightAreShed(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, fmt.Sprintf("\tanvil /hooks demo {\n\t\tverify hmac %q\n\t\tmax_in_flight 3 1MiB\n\t\tread_timeout 10m\n\t\tdeliver %s\n\t}", secret, up.addr()))
	for range 3 {
		conn := dial(t, c.site)
		_, _ = io.WriteString(conn, c.rawPost(1000, "X-Signature: "+sign(secret, nil), "Expect: 100-continue"))
		// The server asks for the body when it has counted the request in.
		if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
			t.Fatalf("got %q, %v", line, err)
		}
	}
	r := post(t, c.site+"/hooks", hook(1))
	if r.status != http.StatusTooManyRequests {
		t.Fatalf("the fourth request got %d %s, want 429", r.status, r.body)
	}
	if r.Error != "too_busy" || r.header.Get("Retry-After") == "" {
		t.Errorf("got %s, Retry-After %q; want too_busy with a time", r.body, r.header.Get("Retry-After"))
	}
}

func TestOtherMethodsAreRefusedWithTheAllowedOne(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, simpleSite(up))
	for _, method := range []string{"GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"} {
		r, err := sendVia(client, method, c.site+"/hooks", nil)
		if err != nil || r.status != http.StatusMethodNotAllowed || r.header.Get("Allow") != "POST" {
			t.Errorf("%s: got %d, Allow %q, %v; want 405 with POST", method, r.status, r.header.Get("Allow"), err)
		}
		if method != "HEAD" && r.Error != "method_not_allowed" {
			t.Errorf("%s: body %s", method, r.body)
		}
	}
}

func TestOddContentTypesAreTakenAndLeaveNoFileOpen(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, simpleSite(up))
	accepted(t, c.site+"/hooks", hook(-1))
	base, _ := c.openFiles("")
	for i := range 300 {
		header := [][]string{{"Content-Type", "foo/bar; charset=;;"}, {}, {"Content-Type", "a/b", "Content-Type", "c/d"}}[i%3]
		accepted(t, c.site+"/hooks", hook(i), header...)
	}
	up.wait(301, patience)
	client.CloseIdleConnections()
	waitFor(t, patience, "open files falling back", func() bool { n, _ := c.openFiles(""); return n <= base+15 })
}

// The commit does not depend on the sender's patience.
func TestASenderThatHangsUpAfterSendingLosesNothing(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	c := startCaddy(t, simpleSite(up))
	const n = 50
	for i := range n {
		conn := dial(t, c.site)
		body := hook(i)
		_, _ = io.WriteString(conn, c.rawPost(len(body), "X-Signature: "+sign(secret, body))+string(body))
		_ = conn.(*net.TCPConn).CloseWrite()
		if i%2 == 0 {
			_, _ = io.ReadAll(conn)
		}
		conn.Close()
	}
	waitFor(t, patience, "the events of the patient half arriving", func() bool { return up.count() >= n/2 })
	// What the impatient have sent may still be on its way, so no moment is the last one.
	waitFor(t, patience, "every stored event being delivered", func() bool {
		states, _ := c.stats()
		return states["pending"]+states["running"] == 0 && len(c.events("")) == up.count()
	})
}
