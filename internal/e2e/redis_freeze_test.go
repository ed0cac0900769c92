package e2e

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/redistest"
)

// A frozen Redis is worse than a dead one: nothing is refused and nothing ends. Ten seconds are beyond every time limit
// of a call and well within a lease.
func TestARedisThatHangsUnderLoadLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	for name, k := range map[string]struct {
		freeze, thaw func(r *redistest.Server, p *redistest.Proxy)
	}{
		"stopped process": {
			func(r *redistest.Server, _ *redistest.Proxy) { r.Freeze() },
			func(r *redistest.Server, _ *redistest.Proxy) { r.Thaw() },
		},
		"silent network": {
			func(_ *redistest.Server, p *redistest.Proxy) { p.Freeze() },
			func(_ *redistest.Server, p *redistest.Proxy) { p.Thaw() },
		},
		"silent network whose connections are gone afterwards": {
			func(_ *redistest.Server, p *redistest.Proxy) { p.Freeze() },
			func(_ *redistest.Server, p *redistest.Proxy) { p.Cut(); p.Thaw() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := newUpstream(t, func(n int, _ hit) answer { return answer{delay: time.Duration(n%7) * 5 * time.Millisecond} })
			r := redistest.Start(t, durable...)
			p := redistest.NewProxy(t, r.Addr())
			c := startInstances(t, 1, redisStore(p.Addr()), healthSite(up))[0]
			l := startLoad(c.site+"/hooks", 8, 10*time.Millisecond)
			waitFor(t, time.Minute, "events being acknowledged", func() bool { return l.count() >= 200 })

			k.freeze(r, p)
			frozen := time.Now()
			for i := 0; time.Since(frozen) < 8*time.Second; i++ {
				refusedInTime(t, c, hook(-1-i))
			}
			if got := c.status("/live"); got != 200 {
				t.Errorf("live is %d, want 200", got)
			}
			<-time.After(10*time.Second - time.Since(frozen))
			k.thaw(r, p)
			c.delivers("/hooks", hook(0), time.Minute)
			enough := l.count() + 100
			waitFor(t, time.Minute, "events being acknowledged again", func() bool { return l.count() >= enough })
			acked := l.stop()
			t.Logf("%d acknowledged, refused by status: %v", len(acked), l.refused)
			c.settled(time.Minute)
			if n, _ := c.metric("caddy_anvil_attempts_total", `outcome="lost"`); n > 0 {
				t.Errorf("%v jobs had to wait for their leases to run out", n)
			}
			allArrived(t, up, acked)
			noneTwice(t, up)
			sane(t, c)
			if l.unheard != 0 {
				t.Errorf("%d requests got no answer", l.unheard)
			}
		})
	}
}

// All connections of the pool are in use many times over.
func TestASmallPoolServesABurstWithoutARefusal(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	r := redistest.Start(t, durable...)
	c := startInstances(t, 1, redisStore(r.Addr(), "pool_size 5", patient), simpleSite(up))[0]
	const n = 500
	acked := make([]string, n)
	var burst sync.WaitGroup
	for i := range n {
		burst.Go(func() {
			r, err := sendSigned(c.site+"/hooks", hook(i))
			if err != nil || r.status != 202 {
				t.Errorf("post %d: %d %s %v", i, r.status, r.body, err)
			}
			acked[i] = r.JobID
		})
	}
	burst.Wait()
	client.CloseIdleConnections() // one that was never used would hold up the server's end for 5s
	up.wait(n, time.Minute)
	c.settled(time.Minute)
	noneTwice(t, up)
	hits := up.jobHits()
	for i, id := range acked {
		if hits[id] != 1 {
			t.Errorf("post %d as job %q arrived %d times", i, id, hits[id])
		}
	}
	// Beside the pool there are the connection that waits for rings and the test's own.
	waitFor(t, time.Minute, "Redis having the connections of a pool of 5 and two more only", func() bool {
		n, err := strconv.Atoi(r.Info("clients", "connected_clients"))
		return err == nil && n <= 5+2
	})
}
