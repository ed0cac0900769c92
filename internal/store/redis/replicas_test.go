package redis_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/redistest"
	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/store/redis"
)

// Workers wait for no replica, so they must not stand in line behind those that do: a lease that is not renewed in time
// is a second delivery.
func TestAcceptsThatWaitForAFrozenReplicaHoldUpNoWorker(t *testing.T) {
	const timeout, jobs = 5 * time.Second, 30
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master)
	s := on(t, master, func(o *redis.Options) { o.Replicas, o.AcceptTimeout = 1, timeout })
	direct := on(t, master)
	for range jobs {
		accept(t, direct)
	}
	replica.Freeze()

	var stored, refused atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var senders sync.WaitGroup
	senders.Go(func() {
		tick := time.NewTicker(25 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			senders.Go(func() {
				switch _, err := s.Accept(t.Context(), webhook()); {
				case err == nil:
					stored.Add(1)
				case errors.Is(err, store.ErrUnavailable):
					refused.Add(1)
				default:
					t.Errorf("accepting: %v", err)
				}
			})
			<-tick.C
		}
	})

	end := sync.OnceFunc(func() {
		stop()
		replica.Thaw()
		senders.Wait()
	})
	defer end()

	// The accepts wait in line from here on.
	wait(t, func() bool { return refused.Load() > 0 })
	var took []time.Duration
	timed := func(do func()) {
		start := time.Now()
		do()
		took = append(took, time.Since(start))
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for range jobs {
		var leases []store.Lease
		timed(func() { _, leases = claim(t, s, 1) })
		timed(func() {
			if lost, err := s.Renew(t.Context(), leases, time.Minute); err != nil || len(lost) > 0 {
				t.Errorf("renewing: %v, %v", lost, err)
			}
		})
		timed(func() { finish(t, s, outcome(leases[0], event.Delivered)) })
		<-tick.C
	}
	if n := stored.Load(); n > 0 {
		t.Errorf("%d accepts were stored: the replica held up nobody", n)
	}
	end()
	slices.Sort(took)
	median, slowest := took[len(took)/2], took[len(took)-1]
	t.Logf("the slowest call of a worker took %s, half of them less than %s; %d accepts were refused", slowest, median, refused.Load())
	// In one line with accepts, each call would wait for half the timeout. A busy machine may delay some as much.
	if median >= timeout/10 {
		t.Errorf("half the calls of a worker took more than %s while accepts waited for a replica", median)
	}
	eventually(t, s)
}

// Whichever way an acknowledgement comes about, enough replicas have what it is about. (Redis up to 7.0 counts the replicas
// that have all that was written before a call; newer servers those that have what its connection has written.)
func TestWhatTooFewReplicasHaveIsNotAcknowledged(t *testing.T) {
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master)
	brief := func(replicas int) func(o *redis.Options) {
		return func(o *redis.Options) { o.Replicas, o.AcceptTimeout = replicas, time.Second }
	}
	s, two, direct := on(t, master, brief(1)), on(t, master, brief(2)), on(t, master)
	eventually(t, s)
	refused := func(what string, s *redis.Store, a store.Accept) {
		t.Helper()
		if got, err := s.Accept(t.Context(), a); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: answered %+v, %v; want %v", what, got, err, store.ErrUnavailable)
		}
	}
	refused("where two are asked for and there is one", two, webhook())

	replica.Freeze()
	keyless := webhook()
	keyless.Keys = nil
	keyed := accept(t, direct)
	acceptThis(t, direct, keyless)
	duplicate := webhook()
	duplicate.Keys = keyed.Keys
	refused("an event that is known by its id", s, keyless)
	refused("an event that is known by its key", s, keyed)
	refused("a duplicate", s, duplicate)
	replica.Thaw()
	eventually(t, s)
}
