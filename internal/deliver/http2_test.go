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
	var swallowed atomic.Int64
	s := serveHTTP2(t, func(_ http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); string(body) == "swallowed" {
			swallowed.Add(1)
		}
	})
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
	// On a slow machine a connection can seem frozen that is not.
	deliver := func(body string) {
		t.Helper()
		r := c.Send(t.Context(), request(url, body))
		for n := 1; n < 20 && r.Attempt.Class == event.ClassReset; n++ {
			r = c.Send(t.Context(), request(url, body))
		}
		wantClass(t, r, event.ClassDelivered)
	}
	deliver("before")
	f.freeze()
	wantClass(t, c.Send(t.Context(), request(url, "swallowed")), event.ClassReset) // and no time-out
	deliver("after")
	if swallowed.Load() != 0 {
		t.Error("the request on the frozen connection arrived")
	}
}
