package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/redistest"
)

// lateness is what a loaded machine may add to a time limit before a test calls it broken.
const lateness = 2 * time.Second

// refusedInTime fails the test unless a webhook is answered 503 with a Retry-After while accept_timeout has its default.
func refusedInTime(t *testing.T, c *instance, body []byte) {
	t.Helper()
	start := time.Now()
	r := post(t, c.site+"/hooks", body)
	took := time.Since(start)
	if r.status != http.StatusServiceUnavailable || r.Error != "store_unavailable" {
		t.Errorf("got %d %s, want 503 store_unavailable", r.status, r.body)
	}
	if seconds, err := strconv.Atoi(r.header.Get("Retry-After")); err != nil || seconds < 1 {
		t.Errorf("Retry-After is %q", r.header.Get("Retry-After"))
	}
	t.Logf("refused after %s", took)
	if limit := 2*time.Second + lateness; took > limit {
		t.Errorf("the refusal took %s, at most %s was allowed", took, limit)
	}
}

// Caddy serves much more than webhooks, and must come up without Redis.
func TestRedisThatIsAwayAtBootStopsNobodyAndIsFoundLater(t *testing.T) {
	t.Parallel()
	for name, k := range map[string]struct {
		leave, come func(r *redistest.Server, p *redistest.Proxy)
	}{
		"nothing listens": {
			func(r *redistest.Server, p *redistest.Proxy) { p.Refuse(); r.Kill() },
			func(r *redistest.Server, p *redistest.Proxy) { r.Start(); p.Allow() },
		},
		"connections are cut": {
			func(r *redistest.Server, _ *redistest.Proxy) { r.Kill() },
			func(r *redistest.Server, _ *redistest.Proxy) { r.Start() },
		},
		"nothing answers": {
			func(_ *redistest.Server, p *redistest.Proxy) { p.Freeze() },
			func(_ *redistest.Server, p *redistest.Proxy) { p.Thaw() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := newUpstream(t, nil)
			r := redistest.Start(t, durable...)
			p := redistest.NewProxy(t, r.Addr())
			k.leave(r, p)

			c := newInstance(t)
			other := freePort(t)
			conf := c.caddyfile(redisStore(p.Addr()), healthSite(up))
			c.start(conf + fmt.Sprintf("\nhttp://127.0.0.1:%d {\n\trespond other\n}\n", other))

			if got := c.status("/live"); got != http.StatusOK {
				t.Errorf("live is %d, want 200", got)
			}
			if got := c.status("/ready"); got != http.StatusServiceUnavailable {
				t.Errorf("ready is %d, want 503", got)
			}
			refusedInTime(t, c, hook(1))
			start := time.Now()
			o, err := sendVia(client, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", other), nil)
			if took := time.Since(start); err != nil || string(o.body) != "other" || took > time.Second {
				t.Errorf("the other site answered %q in %s, %v", o.body, took, err)
			}
			c.logged("Redis does not answer", p.Addr())

			k.come(r, p)
			c.delivers("/hooks", hook(1), 10*time.Second)
			waitFor(t, 5*time.Second, "readiness", func() bool { return c.status("/ready") == http.StatusOK })
			noneTwice(t, up)
		})
	}
}

// A Redis with a large file answers LOADING for minutes after its start.
func TestRedisThatLoadsItsDataIsAwaited(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	// 20,000 commands at no less than 200 µs each.
	r := redistest.Start(t, append([]string{"--key-load-delay", "200"}, durable...)...)
	c := startInstances(t, 1, redisStore(r.Addr()), healthSite(up))[0]
	c.delivers("/hooks", hook(0), 5*time.Second)
	pipe := r.Client().Pipeline()
	for i := range 20_000 {
		pipe.Set(t.Context(), "ballast:"+strconv.Itoa(i), "x", 0)
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.Kill()
	r.StartNoWait()
	waitFor(t, 10*time.Second, "Redis saying LOADING", func() bool {
		err := r.Client().Ping(t.Context()).Err()
		return err != nil && strings.HasPrefix(err.Error(), "LOADING ") // Valkey gives its own name in the rest
	})
	refusedInTime(t, c, hook(1))
	if got := c.status("/ready"); got != http.StatusServiceUnavailable {
		t.Errorf("ready is %d, want 503", got)
	}
	if r.Client().Ping(t.Context()).Err() == nil {
		t.Error("Redis had loaded before the test was through")
	}
	c.delivers("/hooks", hook(1), 30*time.Second)
	waitFor(t, 5*time.Second, "readiness", func() bool { return c.status("/ready") == http.StatusOK })
	noneTwice(t, up)
	if states, _ := c.stats(); states["delivered"] != 2 {
		t.Errorf("stats are %v, want 2 delivered: the one from before the restart too", states)
	}
}
