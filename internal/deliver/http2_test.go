package deliver

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/event"
)

func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }

func serveHTTP2(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = discardLog()
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func TestHTTP2IsUsedWhereTheEndpointOffersIt(t *testing.T) {
	var proto, length string
	s := serveHTTP2(t, func(_ http.ResponseWriter, r *http.Request) { proto, length = r.Proto, r.Header.Get("Content-Length") })
	wantClass(t, newTestClient(t, trust(s)).Send(t.Context(), request(s.URL, "four")), event.ClassDelivered)
	if proto != "HTTP/2.0" || length != "4" {
		t.Errorf("%s with Content-Length %q, want HTTP/2.0 with 4", proto, length)
	}
}

func TestHTTP2EndpointThatSaysGoodbyeAfterEachRequestGetsEverything(t *testing.T) {
	var hits atomic.Int64
	s := serveHTTP2(t, func(w http.ResponseWriter, _ *http.Request) {
		hits.Add(1)
		w.Header().Set("Connection", "close") // over HTTP/2 Go's server sends GOAWAY for it
	})
	c := newTestClient(t, trust(s))
	for i := range 20 {
		r := c.Send(t.Context(), request(s.URL, "x"))
		if r.Attempt.Class == event.ClassReset {
			r = c.Send(t.Context(), request(s.URL, "x"))
		}
		if r.Attempt.Class != event.ClassDelivered {
			t.Fatalf("event %d failed twice: %s", i, r.Attempt.Error)
		}
	}
	if n := hits.Load(); n < 20 || n > 40 {
		t.Errorf("%d requests for 20 events", n)
	}
}

// freezer is a TCP proxy that can stop passing bytes on the connections that it has, as a dead middlebox does.
type freezer struct {
	mu     sync.Mutex
	frozen chan struct{} // closed for the connections of now; later ones get a new one
}

func (f *freezer) freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.frozen)
	f.frozen = make(chan struct{})
}

func (f *freezer) pipe(dst, src net.Conn, frozen <-chan struct{}) {
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		if err != nil {
			_ = dst.Close()
			return
		}
		select {
		case <-frozen: // swallowed
		default:
			if _, err := dst.Write(buf[:n]); err != nil {
				return
			}
		}
	}
}

func TestFrozenHTTP2ConnectionIsLeftBehind(t *testing.T) {
	var hits atomic.Int64
	s := serveHTTP2(t, func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &freezer{frozen: make(chan struct{})}
	acceptAll(t, l, func(down net.Conn) {
		f.mu.Lock()
		frozen := f.frozen
		f.mu.Unlock()
		up, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "https://"))
		if err != nil {
			return
		}
		var wg sync.WaitGroup
		wg.Go(func() { f.pipe(down, up, frozen) })
		wg.Go(func() { f.pipe(up, down, frozen) })
		wg.Wait()
	})
	c := newTestClient(t, trust(s), func(c *Client) {
		c.transport.HTTP2.SendPingTimeout, c.transport.HTTP2.PingTimeout = 100*time.Millisecond, 100*time.Millisecond
	})
	url := "https://" + l.Addr().String()
	wantClass(t, c.Send(t.Context(), request(url, "x")), event.ClassDelivered)
	f.freeze()
	began := time.Now()
	wantClass(t, c.Send(t.Context(), request(url, "x")), event.ClassReset)
	wantClass(t, c.Send(t.Context(), request(url, "x")), event.ClassDelivered)
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("leaving the frozen connection took %s", took)
	}
	if n := hits.Load(); n != 2 {
		t.Errorf("%d requests arrived, want 2", n)
	}
}
