package worker

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-anvil/anvil/internal/event"
)

// BenchmarkDrain delivers a backlog of b.N jobs of 1 KiB to an endpoint that answers at once.
func BenchmarkDrain(b *testing.B) {
	for name, slots := range map[string]int{"slots=8": 8, "slots=64": 64} {
		b.Run(name, func(b *testing.B) {
			s := openStore(b).Store
			up := newUpstream(b, func(int, *http.Request) int { return http.StatusOK })
			body := strings.Repeat("x", 1024)
			var wg sync.WaitGroup
			for g := range 64 {
				wg.Go(func() {
					for i := g; i < b.N; i += 64 {
						accept(b, s, body, lane("a"))
					}
				})
			}
			wg.Wait()
			done := &counter{left: b.N, zero: make(chan struct{})}
			b.ResetTimer()
			e := start(b, s, func(c *Config) { c.Observer = done })
			e.Attach(settings(endpoint("a", up.url, func(ep *Endpoint) { ep.Concurrency = slots })))
			<-done.zero
			e.Drain(context.Background())
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}

// counter closes zero when as many attempts as left have ended.
type counter struct {
	mu   sync.Mutex
	left int
	zero chan struct{}
}

func (c *counter) Attempt(string, string, event.Class) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left--; c.left == 0 {
		close(c.zero)
	}
}

func (c *counter) Dead(string, string, event.Reason) {}
