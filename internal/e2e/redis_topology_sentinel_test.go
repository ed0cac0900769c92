package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-anvil/anvil/internal/redistest"
)

// redisBlock is the global option with the words that say where Redis is.
func redisBlock(words ...string) string {
	return "\t\tstore redis {\n\t\t\t" + strings.Join(words, "\n\t\t\t") + "\n\t\t}"
}

func onSentinel(g *redistest.Sentinel, words ...string) string {
	return redisBlock(append(words, "sentinel "+g.MasterName()+" "+strings.Join(g.Addrs(), " "))...)
}

// goesOn waits until so many more webhooks are acknowledged.
func (l *load) goesOn(t testing.TB, more int, within time.Duration) {
	t.Helper()
	enough := l.count() + more
	waitFor(t, within, fmt.Sprintf("%d more webhooks being acknowledged", more), func() bool { return l.count() >= enough })
}

// refusals is how many webhooks were refused so far.
func (l *load) refusals() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, of := range l.refused {
		n += of
	}
	return n
}

// onlyUnavailable fails the test if a sender has seen anything but 202 and 503.
func (l *load) onlyUnavailable(t testing.TB) {
	t.Helper()
	for status, n := range l.refused {
		if status != http.StatusServiceUnavailable {
			t.Errorf("%d webhooks were answered %d, want 202 or 503", n, status)
		}
	}
	if l.unheard > 0 {
		t.Errorf("%d webhooks were not answered", l.unheard)
	}
}

// neverAsTwoJobs fails the test for every body that arrived under two ids: a receiver could not tell that it is a repeat.
func neverAsTwoJobs(t testing.TB, up *upstream) (repeats int) {
	t.Helper()
	jobOf := map[string]string{}
	for _, h := range up.hits() {
		first, seen := jobOf[string(h.body)]
		if seen && first != h.jobID() {
			t.Errorf("%s arrived as job %s and as job %s", h.body, first, h.jobID())
		}
		if seen {
			repeats++
		}
		jobOf[string(h.body)] = h.jobID()
	}
	return repeats
}

// missing is how many of the acknowledged jobs have not arrived.
func missing(up *upstream, acked map[string]int) (n int) {
	hits := up.jobHits()
	for id := range acked {
		if hits[id] == 0 {
			n++
		}
	}
	return n
}

// arrive waits until every acknowledged job has arrived. It does not wait for all outcomes to be stored: one that only a
// dead master knew is found to be lost when its lease ends, and that takes half a minute.
func arrive(t testing.TB, up *upstream, acked map[string]int, within time.Duration) {
	t.Helper()
	waitFor(t, within, "every acknowledged webhook arriving", func() bool { return missing(up, acked) == 0 })
}

// killReplicated kills a master. What it had acknowledged before the time that is returned had been sent to its replicas,
// however long they had no processor.
func killReplicated(t *testing.T, master *redistest.Server) span {
	t.Helper()
	return timed(func() {
		waitFor(t, time.Minute, "a replica having all that was written", func() bool {
			p := master.Client().Pipeline()
			p.Set(t.Context(), "the end", "1", 0)
			have := p.Do(t.Context(), "WAIT", 1, 1000)
			_, err := p.Exec(t.Context())
			n, _ := have.Int()
			return err == nil && n >= 1
		})
		master.Kill()
	})
}

// rested reports whether all sentinels name the same master, see no failover under way and know two replicas that follow it.
func rested(g *redistest.Sentinel) bool {
	port := ""
	for _, s := range g.Sentinels {
		m := redis.NewMapStringStringCmd(context.Background(), "SENTINEL", "MASTER", g.MasterName())
		replicas := redis.NewMapStringStringSliceCmd(context.Background(), "SENTINEL", "REPLICAS", g.MasterName())
		if s.Client().Process(context.Background(), m) != nil || s.Client().Process(context.Background(), replicas) != nil {
			return false
		}
		now := m.Val()["port"]
		if m.Val()["flags"] != "master" || len(replicas.Val()) != 2 || port != "" && port != now {
			return false
		}
		port = now
		for _, r := range replicas.Val() {
			if r["flags"] != "slave" || r["master-link-status"] != "ok" || r["master-port"] != port {
				return false
			}
		}
	}
	return true
}

func TestTwoSentinelFailoversUnderLoad(t *testing.T) {
	t.Parallel()
	for _, replicas := range []string{"0", "1"} {
		t.Run("replicas "+replicas, func(t *testing.T) {
			t.Parallel()
			g := redistest.StartSentinel(t)
			up := newUpstream(t, nil)
			c := startInstances(t, 1, onSentinel(g, "replicas "+replicas), simpleSite(up))[0]
			l := startLoad(c.site+"/hooks", 4, 20*time.Millisecond)
			l.outlast(t)

			first := g.Master()
			kills := []span{killReplicated(t, first)}
			second := g.WaitFailover(first)
			l.outlast(t)

			first.Start()
			first.Do("REPLICAOF", "127.0.0.1", second.Port()) // Sentinel does so too, some ten seconds later
			waitFor(t, time.Minute, "every sentinel being ready for another failover", func() bool { return rested(g) })
			second = g.Master()
			kills = append(kills, killReplicated(t, second))
			g.WaitFailover(second)
			l.goesOn(t, 50, time.Minute)

			acked := l.stop()
			l.onlyUnavailable(t)
			atRisk := l.atRisk(shortly, kills...)
			safe := maps.Clone(acked)
			if replicas == "0" {
				// What was acknowledged in the moment before a kill may have reached no replica.
				maps.DeleteFunc(safe, func(id string, _ int) bool { return atRisk[id] })
				if len(safe) < 100 {
					t.Errorf("of %d acknowledged webhooks only %d must arrive: that proves little", len(acked), len(safe))
				}
			}
			arrive(t, up, safe, 2*time.Minute)
			t.Logf("%d acknowledged, %d of them at risk, %d missing, refused by status: %v, %d deliveries were repeats",
				len(acked), len(atRisk), missing(up, acked), l.refused, neverAsTwoJobs(t, up))
		})
	}
}

func TestAWebhookThatNoReplicaHasIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master)
	c := startInstances(t, 1, redisStore(master.Addr(), "replicas 1", "accept_timeout 1s"), simpleSite(up))[0]
	acceptedSoon(t, c.site+"/hooks", hook(1), time.Minute)

	replica.Freeze()
	inTime(t, "the refusal, with an accept_timeout of 1s,", time.Second+lateness, func() {
		r := post(t, c.site+"/hooks", hook(2))
		if r.status != http.StatusServiceUnavailable || r.Error != "store_unavailable" || r.header.Get("Retry-After") == "" {
			t.Errorf("with the replica frozen the sender got %d %s and Retry-After %q, want 503 store_unavailable with Retry-After",
				r.status, r.body, r.header.Get("Retry-After"))
		}
	})

	replica.Thaw()
	// The sender comes again, and it does not matter that the master has had the webhook all the time.
	id := acceptedSoon(t, c.site+"/hooks", hook(2), time.Minute)
	c.waitState(id, "delivered", time.Minute)
	up.wait(2, time.Minute)
	noneTwice(t, up)
}
