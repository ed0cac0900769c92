package redis_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/redistest"
	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/store/redis"
)

// Two stores on one server are two processes as far as Redis can tell.

func TestAnotherInstanceSeesEverything(t *testing.T) {
	server := redistest.Start(t)
	one, other := on(t, server), on(t, server)
	a := accept(t, one)
	copied := webhook()
	copied.Keys = a.Keys
	if got, err := other.Accept(t.Context(), copied); err != nil || !got.Duplicate || got.EventID != a.Event.ID {
		t.Fatalf("the copy got %+v, %v; want the first one's ids", got, err)
	}
	jobs, leases := claim(t, other, 10)
	if len(jobs) != 1 || string(jobs[0].Event.Payload) != "payload" {
		t.Fatalf("claimed %+v, want the job with its payload", jobs)
	}
	if jobs, _ := claim(t, one, 10); len(jobs) != 0 {
		t.Fatal("the job was claimed twice")
	}
	finish(t, other, outcome(leases[0], event.Delivered))
	wantState(t, one, a.Jobs[0].ID, event.Delivered)
}

func TestAnAcceptWakesTheOtherInstances(t *testing.T) {
	server := redistest.Start(t)
	one, other := on(t, server), on(t, server)
	// The first wakes come from the subscriptions themselves.
	wantWake(t, one)
	wantWake(t, other)
	accept(t, one)
	wantWake(t, other)
	if jobs, _ := claim(t, other, 10); len(jobs) != 1 {
		t.Fatalf("woken, but %d jobs are due", len(jobs))
	}
}

func TestAnAcceptWakesTheOtherInstancesBesideARetryThatIsDueLater(t *testing.T) {
	server := redistest.Start(t)
	one, other := on(t, server), on(t, server)
	wantWake(t, one)
	wantWake(t, other)
	accept(t, one)
	wantWake(t, other)
	_, leases := claim(t, one, 1)
	later := outcome(leases[0], event.Pending)
	later.RetryIn = time.Hour
	finish(t, one, later)
	accept(t, one)
	wantWake(t, other)
}

func TestWhatOneInstanceHasEndedAnotherPrunes(t *testing.T) {
	server := redistest.Start(t)
	one, other := on(t, server), on(t, server)
	accept(t, one)
	id := kill(t, one)
	pruneAll(t, other, 0)
	if _, _, err := one.Job(t.Context(), id); !errors.Is(err, store.ErrPruned) {
		t.Errorf("the job of a queue that this instance has never seen: %v, want %v", err, store.ErrPruned)
	}
}

func wantWake(t *testing.T, s *redis.Store) {
	t.Helper()
	select {
	case <-s.Wake():
	case <-time.After(time.Minute):
		t.Fatal("no wake came")
	}
}

func TestALifeLostByOneInstanceIsRecoveredOnceByAnother(t *testing.T) {
	server := redistest.Start(t)
	stores := []*redis.Store{on(t, server), on(t, server), on(t, server)}
	const jobs = 50
	for range jobs {
		accept(t, stores[0])
	}
	_, leases := claim(t, stores[0], jobs)
	var wg sync.WaitGroup
	recovered := make([]store.Recovered, len(stores))
	for i, s := range stores {
		s.Advance(time.Minute)
		wg.Go(func() {
			var err error
			if recovered[i], err = s.Recover(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	n := 0
	for _, r := range recovered {
		n += len(r.Returned)
	}
	if n != jobs {
		t.Errorf("%d lives were recovered, want %d", n, jobs)
	}
	if lost, err := stores[0].Finish(t.Context(), outcome(leases[0], event.Delivered)); err != nil || !lost {
		t.Errorf("the old holder's outcome: lost %v, %v; want it to be lost", lost, err)
	}
}

func TestInstancesPruneAtTheSameTime(t *testing.T) {
	server := redistest.Start(t)
	stores := []*redis.Store{on(t, server), on(t, server)}
	const jobs = 250
	for range jobs {
		accept(t, stores[0])
	}
	_, leases := claim(t, stores[0], jobs)
	for _, l := range leases {
		finish(t, stores[0], outcome(l, event.Delivered))
	}
	var wg sync.WaitGroup
	for _, s := range stores {
		wg.Go(func() { pruneAll(t, s, 0) })
	}
	wg.Wait()
	st, err := stores[0].Stats(t.Context())
	must(t, err)
	for _, l := range st.Lanes {
		if l.Jobs != [7]int64{} {
			t.Errorf("lane %v counts %v after pruning, want nothing", l.LaneID, l.Jobs)
		}
	}
}

func TestABacklogLimitHoldsAcrossInstances(t *testing.T) {
	server := redistest.Start(t)
	stores := []*redis.Store{on(t, server), on(t, server), on(t, server)}
	const limit, senders = 40, 90
	var wg sync.WaitGroup
	var mu sync.Mutex
	outcomes := map[string]int{}
	for i := range senders {
		wg.Go(func() {
			a := webhook()
			a.Jobs[0].MaxPending = limit
			_, err := stores[i%len(stores)].Accept(t.Context(), a)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				outcomes["stored"]++
			} else {
				outcomes[fmt.Sprintf("%.23s", err)]++
			}
		})
	}
	wg.Wait()
	if outcomes["stored"] != limit || outcomes["backlog limit reached: "] != senders-limit {
		t.Errorf("outcomes %v, want %d stored and the others refused", outcomes, limit)
	}
}
