package redis_test

import (
	"context"
	"errors"
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
	const timeout, jobs = time.Second, 30
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master)
	s := on(t, master, func(o *redis.Options) { o.Replicas, o.AcceptTimeout = 1, timeout })
	for range jobs {
		accept(t, s)
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
	var slowest time.Duration
	timed := func(do func()) {
		start := time.Now()
		do()
		slowest = max(slowest, time.Since(start))
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
	end()
	t.Logf("the slowest call of a worker took %s; %d accepts were refused", slowest, refused.Load())
	if slowest >= timeout/2 {
		t.Errorf("a worker's call took %s while accepts waited for a replica", slowest)
	}
	if stored.Load() > refused.Load() {
		t.Errorf("%d accepts were stored, %d refused: the replica held up nobody", stored.Load(), refused.Load())
	}
	eventually(t, s)
}
