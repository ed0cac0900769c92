package deliver

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
)

// rawConn is one accepted connection of an endpoint that speaks HTTP by hand.
type rawConn struct {
	net.Conn
	t  *testing.T
	br *bufio.Reader
}

// readRequest reads one whole request and returns its body; ok is false when the connection has ended.
func (c *rawConn) readRequest() (body string, ok bool) {
	r, err := http.ReadRequest(c.br)
	if err != nil {
		return "", false
	}
	b, err := io.ReadAll(r.Body)
	return string(b), err == nil
}

func (c *rawConn) write(s string) bool {
	_, err := io.WriteString(c.Conn, s)
	return err == nil
}

func (c *rawConn) untilClosed() { _, _ = io.Copy(io.Discard, c.br) }

// rawServer runs handle for each connection and closes the connection after it.
func rawServer(t *testing.T, handle func(*rawConn)) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	acceptAll(t, l, func(c net.Conn) { handle(&rawConn{Conn: c, t: t, br: bufio.NewReader(c)}) })
	return "http://" + l.Addr().String()
}

// acceptAll handles each connection of l in a goroutine of its own, all of which end with the test.
func acceptAll(t *testing.T, l net.Listener, handle func(net.Conn)) {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[c] = true
			mu.Unlock()
			wg.Go(func() {
				handle(c)
				mu.Lock()
				delete(open, c)
				mu.Unlock()
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
}

// countingListener counts accepted connections.
type countingListener struct {
	net.Listener
	accepted atomic.Int64
}

func (l *countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.accepted.Add(1)
	}
	return c, err
}
