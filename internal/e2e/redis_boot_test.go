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

// refusedInTime fails the test unless a webhook is answered 503 with a Retry-After while accept_timeout has its default.
func refusedInTime(t *testing.T, c *instance, body []byte) {
	t.Helper()
	inTime(t, "the refusal", 2*time.Second+lateness, func() {
		r := post(t, c.site+"/hooks", body)
		if r.status != http.StatusServiceUnavailable || r.Error != "store_unavailable" {
			t.Errorf("got %d %s, want 503 store_unavailable", r.status, r.body)
		}
		if seconds, err := strconv.Atoi(r.header.Get("Retry-After")); err != nil || seconds < 1 {
			t.Errorf("Retry-After is %q", r.header.Get("Retry-After"))
		}
	})
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
			inTime(t, "the other site's answer", time.Second, func() {
				o, err := sendVia(client, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", other), nil)
				if err != nil || string(o.body) != "other" {
					t.Errorf("the other site answered %q, %v", o.body, err)
				}
			})
			c.logged("Redis does not answer", p.Addr())

			k.come(r, p)
			c.delivers("/hooks", hook(1), time.Minute)
			waitFor(t, time.Minute, "readiness", func() bool { return c.status("/ready") == http.StatusOK })
			noneTwice(t, up)
		})
	}
}

// A Redis with a large file answers LOADING for minutes after its start.
func TestRedisThatLoadsItsDataIsAwaited(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	// 100,000 commands at no less than 200 µs each: longer than the test takes, and cut short when it is through. Not
	// everysec: the kill may come right after an answer, and such a Redis forgets that one now and then.
	r := redistest.Start(t, "--key-load-delay", "200", "--appendonly", "yes", "--appendfsync", "always")
	c := startInstances(t, 1, redisStore(r.Addr()), healthSite(up))[0]
	c.delivers("/hooks", hook(0), time.Minute)
	r.Do("EVAL", "for i = 1, 100000 do redis.call('SET', 'ballast:' .. i, 'x') end", 0)
	r.Kill()
	r.StartNoWait()
	waitFor(t, time.Minute, "Redis saying LOADING", func() bool {
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
	r.Do("CONFIG", "SET", "key-load-delay", 0)
	c.delivers("/hooks", hook(1), time.Minute)
	waitFor(t, time.Minute, "readiness", func() bool { return c.status("/ready") == http.StatusOK })
	noneTwice(t, up)
	if states, _ := c.stats(); states["delivered"] != 2 {
		t.Errorf("stats are %v, want 2 delivered: the one from before the restart too", states)
	}
}
