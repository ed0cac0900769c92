package redis_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/redistest"
	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/store/redis"
)

// slowly returns a store behind a slow network, with an event of each size waiting in it.
func slowly(t *testing.T, timeout time.Duration, rate int, sizes ...int) (*redis.Store, []store.Accept) {
	t.Helper()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	s := on(t, server, func(o *redis.Options) { o.Addr, o.AcceptTimeout = proxy.Addr(), timeout })
	direct := on(t, server)
	var all []store.Accept
	for _, size := range sizes {
		a := webhook()
		a.Event.Payload = bytes.Repeat([]byte("p"), size)
		acceptThis(t, direct, a)
		all = append(all, a)
	}
	proxy.Slow(rate)
	return s, all
}

// claimAgain sends a claim until it is answered, as a worker does.
func claimAgain(t *testing.T, s *redis.Store, most int) (jobs []store.ClaimedJob) {
	t.Helper()
	c := store.Claim{Token: newID(), Lanes: []store.Lane{{LaneID: hooks, Max: most}}, Lease: 10 * time.Minute}
	wait(t, func() bool {
		got, err := s.Claim(t.Context(), c)
		jobs = got.Jobs
		if err != nil && !errors.Is(err, store.ErrUnavailable) {
			t.Fatal(err)
		}
		return err == nil
	})
	return jobs
}

func TestEventsThatTakeTooLongTogetherAreReadOneByOne(t *testing.T) {
	t.Parallel()
	const size = 300 << 10
	s, _ := slowly(t, time.Second, size, size, size, size) // a second each, and two seconds for all
	jobs := claimAgain(t, s, 10)
	if len(jobs) != 3 {
		t.Fatalf("%d jobs were claimed, want 3", len(jobs))
	}
	for _, j := range jobs {
		if len(j.Event.Payload) != size {
			t.Errorf("a payload of %d bytes", len(j.Event.Payload))
		}
	}
}

// Claims are all that the workers live on, so the one event must not be asked for until it comes.
func TestAnEventThatTakesTooLongByItselfHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	s, all := slowly(t, time.Second, 20<<10, 10, 1<<20, 10)
	jobs := claimAgain(t, s, 10)
	if len(jobs) != 2 || jobs[0].Job.ID == all[1].Jobs[0].ID || jobs[1].Job.ID == all[1].Jobs[0].ID {
		t.Errorf("%d jobs were claimed, want the two small ones", len(jobs))
	}
}

func TestWhatThereWasNoTimeForIsClaimedNextAndLosesNoLife(t *testing.T) {
	t.Parallel()
	sizes := []int{1 << 20, 1 << 20} // more than all the time by themselves
	for range 18 {                   // and more than one pipeline
		sizes = append(sizes, 10)
	}
	s, _ := slowly(t, 2*time.Second, 50<<10, sizes...)
	small := 0
	for range 2 {
		jobs := claimAgain(t, s, len(sizes))
		for _, j := range jobs {
			if j.Job.Attempts != 1 {
				t.Errorf("a job's first attempt is its number %d", j.Job.Attempts)
			}
		}
		small += len(jobs)
	}
	if small != len(sizes)-2 {
		t.Errorf("%d jobs were claimed, want all %d small ones", small, len(sizes)-2)
	}
}
