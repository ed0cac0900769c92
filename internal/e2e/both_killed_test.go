package e2e

import (
	"sync"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/redistest"
)

// A power cut takes the server and its Redis in the same moment, and a bad day takes one after the other.
func TestKillsOfTheServerAndOfItsRedisLeaveNothingUnfinished(t *testing.T) {
	t.Parallel()
	// Each sixth attempt fails, so that the kills meet jobs that wait for a retry, too; but none so often that it dies.
	failed := map[string]int{}
	var mu sync.Mutex
	up := newUpstream(t, func(n int, h hit) answer {
		mu.Lock()
		defer mu.Unlock()
		if n%6 == 0 && failed[h.jobID()] < 3 {
			failed[h.jobID()]++
			return answer{status: 500}
		}
		return answer{delay: time.Duration(n%7) * 5 * time.Millisecond}
	})
	// Not everysec: such a Redis may forget what it has just acknowledged, and this test is about what it has.
	r := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	c := newInstance(t)
	conf := c.caddyfile(redisStore(r.Addr())+"\n\t\tqueue webhooks {\n\t\t\tretry 200ms 200ms 200ms 200ms 200ms 200ms\n\t\t}", simpleSite(up))
	c.start(conf)
	l := startLoad(c.site+"/hooks", 6, 20*time.Millisecond)
	for round := range 9 {
		l.goesOn(t, 30+7*round, patience)
		switch round % 3 {
		case 0:
			c.kill9()
		case 1:
			r.Kill()
		default:
			c.kill9()
			r.Kill()
		}
		if !r.Running() {
			r.Start()
		}
		if !c.running() {
			c.start(conf)
		}
	}
	acked := l.stop()
	// What was under way at a kill of the server waits for the end of its lease.
	c.settled(2 * time.Minute)
	allArrived(t, up, acked)
	states, unrouted := c.stats()
	if n := len(c.jobs("")); states["delivered"] != n || unrouted != 0 {
		t.Errorf("of %d jobs the stats say %v, unrouted %d; want all delivered", n, states, unrouted)
	}
	for id := range acked {
		if j := c.job(id); j.State != "delivered" || len(j.Ledger) == 0 {
			t.Errorf("job %s is %s with %d attempts", id, j.State, len(j.Ledger))
		}
	}
	repeats := neverAsTwoJobs(t, up)
	sane(t, c)
	t.Logf("%d acknowledged, %d without an answer, refused by status: %v, %d requests of jobs that were sent before", len(acked), l.unheard, l.refused, repeats)
}
