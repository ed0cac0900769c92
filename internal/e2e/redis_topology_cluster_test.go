package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/redistest"
)

// slotKey stands for all keys of the default prefix, which are in one slot.
const slotKey = "{anvil}:meta"

func onCluster(cl *redistest.Cluster, words ...string) string {
	return redisBlock(append(words, "cluster "+strings.Join(cl.Addrs(), " "))...)
}

// otherMaster is a master that does not have the slot.
func otherMaster(t testing.TB, cl *redistest.Cluster) *redistest.Server {
	t.Helper()
	owner := cl.MasterOf(slotKey)
	for _, s := range cl.Masters() {
		if s != owner {
			return s
		}
	}
	t.Fatal("the cluster has one master only")
	return nil
}

func TestASlotThatMovesUnderLoadLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	for _, replicas := range []string{"0", "1"} {
		t.Run("replicas "+replicas, func(t *testing.T) {
			t.Parallel()
			cl := redistest.StartCluster(t)
			// Some attempts are under way whenever the slot begins to move.
			up := newUpstream(t, func(n int, _ hit) answer { return answer{delay: time.Duration(n%5) * 40 * time.Millisecond} })
			c := startInstances(t, 1, onCluster(cl, "replicas "+replicas), simpleSite(up))[0]
			l := startLoad(c.site+"/hooks", 4, 20*time.Millisecond)
			first := cl.MasterOf(slotKey)
			l.goesOn(t, 100, time.Minute)

			for _, to := range []*redistest.Server{otherMaster(t, cl), first, otherMaster(t, cl)} {
				m := cl.BeginMove(t, slotKey, to)
				if n := m.MoveKeys(100); n != 100 {
					t.Fatalf("there were %d keys to move, want at least 100", n)
				}
				// Half the keys are here and half there, and no script can have both.
				refused := l.refusals()
				waitFor(t, time.Minute, "refusals while the slot is half moved", func() bool { return l.refusals() >= refused+4 })
				m.EndMove()
				l.goesOn(t, 100, time.Minute)
			}

			acked := l.stop()
			l.onlyUnavailable(t)
			c.settled(time.Minute)
			allArrived(t, up, acked)
			noneTwice(t, up)
			if states, _ := c.stats(); states["delivered"] != up.count() || states["dead"] != 0 {
				t.Errorf("stats are %v, the upstream has %d", states, up.count())
			}
			t.Logf("%d acknowledged, refused by status: %v", len(acked), l.refused)
		})
	}
}

func TestAHalfMovedSlotIsAnsweredWithRetryAfterAndDeliversWhenItHasArrived(t *testing.T) {
	t.Parallel()
	cl := redistest.StartCluster(t)
	gate := make(chan struct{})
	up := newUpstream(t, func(int, hit) answer {
		<-gate
		return answer{}
	})
	open := openedAtEnd(t, gate)
	c := startInstances(t, 1, onCluster(cl), simpleSite(up))[0]
	const n = 8
	var ids []string
	for i := range n {
		ids = append(ids, acceptedSoon(t, c.site+"/hooks", hook(i), time.Minute))
	}
	up.wait(n, time.Minute)

	m := cl.BeginMove(t, slotKey, otherMaster(t, cl))
	m.MoveKeys(n)
	r := post(t, c.site+"/hooks", hook(n))
	if r.status != http.StatusServiceUnavailable || r.Error != "store_unavailable" || r.header.Get("Retry-After") == "" {
		t.Errorf("got %d %s, want 503 store_unavailable with Retry-After", r.status, r.body)
	}
	open()
	c.logged("writing the outcome of an attempt") // fails until the slot has moved
	m.EndMove()

	c.delivers("/hooks", hook(n), time.Minute)
	for _, id := range ids {
		if j := c.waitState(id, "delivered", time.Minute); len(j.Ledger) != 1 {
			t.Errorf("ledger of job %s has %d rows, want that of the attempt whose outcome had to wait: %+v", id, len(j.Ledger), j.Ledger)
		}
	}
	noneTwice(t, up)
}

func TestTwoFailoversInAClusterUnderLoad(t *testing.T) {
	t.Parallel()
	cl := redistest.StartCluster(t)
	up := newUpstream(t, nil)
	c := startInstances(t, 1, onCluster(cl, "replicas 1"), simpleSite(up))[0]
	l := startLoad(c.site+"/hooks", 4, 20*time.Millisecond)
	l.goesOn(t, 50, time.Minute)

	for range 2 {
		dead := cl.MasterOf(slotKey)
		dead.Kill()
		waitFor(t, time.Minute, "the replica taking over", func() bool { return cl.MasterOf(slotKey) != dead })
		// The new master has no replica until the dead one is back, so nothing may be acknowledged before.
		dead.Start()
		l.goesOn(t, 50, time.Minute)
	}

	acked := l.stop()
	l.onlyUnavailable(t)
	arrive(t, up, acked, 2*time.Minute)
	t.Logf("%d acknowledged, refused by status: %v, %d deliveries were repeats", len(acked), l.refused, neverAsTwoJobs(t, up))
}
