package deliver

import (
	"context"
	"fmt"
	"io"
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

const ok200 = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

func TestTransportNeverSendsARequestTwice(t *testing.T) {
	for _, c := range []struct{ method, body string }{{"POST", ""}, {"POST", "payload"}, {"GET", ""}, {"DELETE", ""}} {
		for _, key := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
			t.Run(fmt.Sprintf("%s of %d bytes with %s", c.method, len(c.body), key), func(t *testing.T) {
				// A kept connection that breaks while its second request is unanswered is what makes Go's transport send
				// again. On a slow machine it does not keep each one.
				var kept atomic.Bool
				for tries := 0; !kept.Load(); tries++ {
					if tries == 20 {
						t.Fatal("no connection is kept")
					}
					var requests atomic.Int64
					url := rawServer(t, func(c *rawConn) {
						for first := true; ; first = false {
							if _, ok := c.readRequest(); !ok {
								return
							}
							if requests.Add(1) == 2 {
								kept.Store(!first)
								return
							}
							if !c.write(ok200) {
								return
							}
						}
					})
					client := newTestClient(t)
					req := request(url, c.body, withHeaders(key, "k"), withMethod(c.method))
					wantClass(t, client.Send(t.Context(), req), event.ClassDelivered)
					r := client.Send(t.Context(), req)
					wantClass(t, r, event.ClassReset)
					if n := requests.Load(); n != 2 || !r.Sent {
						t.Fatalf("the endpoint saw %d requests for two attempts (sent: %v)", n, r.Sent)
					}
				}
			})
		}
	}
}

func TestKeptConnectionThatTheServerClosesCostsAtMostOneAttempt(t *testing.T) {
	url := rawServer(t, func(c *rawConn) {
		if _, ok := c.readRequest(); ok {
			c.write(ok200) // it promises to stay open, and closes
		}
	})
	c := newTestClient(t)
	for i := range 50 {
		r := c.Send(t.Context(), request(url, "x"))
		if r.Attempt.Class == event.ClassReset {
			r = c.Send(t.Context(), request(url, "x"))
		}
		if r.Attempt.Class != event.ClassDelivered {
			t.Fatalf("event %d failed twice: %s", i, r.Attempt.Error)
		}
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	const parallel, each = 20, 50
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	counting := &countingListener{Listener: l}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	s.Listener = counting
	s.Start()
	defer s.Close()
	c := newTestClient(t)
	var wg sync.WaitGroup
	for range parallel {
		wg.Go(func() {
			for range each {
				if r := c.Send(t.Context(), request(s.URL, "x")); r.Attempt.Class != event.ClassDelivered {
					t.Errorf("failed: %s", r.Attempt.Error)
				}
			}
		})
	}
	wg.Wait()
	if n := counting.accepted.Load(); n > parallel*each/4 { // about two for each lane; on a slow machine some are not kept
		t.Errorf("%d connections for %d requests in %d lanes", n, parallel*each, parallel)
	}
}

func TestAnswerThatNeverEndsHoldsNobodyAndStaysDelivered(t *testing.T) {
	block := strings.Repeat("z", 32<<10)
	for name, answer := range map[string]func(c *rawConn){
		"flood": func(c *rawConn) {
			for c.write(fmt.Sprintf("%x\r\n%s\r\n", len(block), block)) {
			}
		},
		"stall":       func(c *rawConn) { c.untilClosed() },
		"broken":      func(c *rawConn) { c.write("zz not a chunk\r\n") },
		"ends midway": func(c *rawConn) { c.write("ff\r\nhalf") },
	} {
		t.Run(name, func(t *testing.T) {
			url := rawServer(t, func(c *rawConn) {
				if _, ok := c.readRequest(); ok && c.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n") {
					answer(c)
				}
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			held := time.AfterFunc(patience/2, cancel) // a second is its time
			req := request(url, "x")
			req.Target.Timeout = time.Hour
			r := newTestClient(t).Send(ctx, req)
			wantClass(t, r, event.ClassDelivered)
			if !held.Stop() {
				t.Error("it held the worker for as long as the attempt could take")
			}
			if len(r.Attempt.Snippet) > maxText {
				t.Errorf("snippet of %d bytes", len(r.Attempt.Snippet))
			}
		})
	}
}

func TestHugeResponseHeadersAreRefused(t *testing.T) {
	url := rawServer(t, func(c *rawConn) {
		if _, ok := c.readRequest(); !ok || !c.write("HTTP/1.1 200 OK\r\n") {
			return
		}
		for c.write("X-Filler: " + strings.Repeat("h", 4096) + "\r\n") {
		}
	})
	r := newTestClient(t).Send(t.Context(), request(url, "x"))
	wantClass(t, r, event.ClassReset)
}
