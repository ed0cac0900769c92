package redis_test

import (
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/redistest"
	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/store/redis"
)

// storeWith opens a store on a Redis of its own with n jobs, of which three are dead.
func storeWith(t *testing.T, n int) *redis.Store {
	t.Helper()
	const each = 100 // jobs of one event
	s := on(t, redistest.Start(t))
	for range n / each {
		a := webhook()
		for range each - 1 {
			a.Jobs = append(a.Jobs, store.NewJob{ID: newID(), Queue: hooks.Queue, Endpoint: hooks.Endpoint})
		}
		acceptThis(t, s, a)
	}
	_, leases := claim(t, s, 3)
	for _, l := range leases {
		finish(t, s, outcome(l, event.Dead))
	}
	return s
}

// Statistics are scraped every few seconds and lists are looked at while webhooks come in: nothing may go through all jobs.
// Redis does nothing else meanwhile.
func TestWhatOperatorsAskForTakesNoLongerWithManyJobs(t *testing.T) {
	const few, many = 1000, 20_000
	small, large := storeWith(t, few), storeWith(t, many)
	dead, pending := event.Dead, event.Pending
	jobs := func(f store.JobFilter, want int) func(*redis.Store) {
		return func(s *redis.Store) {
			if got, _, err := s.Jobs(t.Context(), f); err != nil || len(got) != want {
				t.Errorf("listing %+v: %d jobs, %v; want %d", f, len(got), err, want)
			}
		}
	}
	for name, ask := range map[string]func(*redis.Store){
		"statistics": func(s *redis.Store) {
			st, err := s.Stats(t.Context())
			if err != nil || len(st.Lanes) != 1 || st.Lanes[0].Jobs[dead] != 3 || st.Lanes[0].Jobs[pending] < few-3 {
				t.Errorf("statistics %+v, %v", st, err)
			}
		},
		"newest jobs":         jobs(store.JobFilter{Limit: 100}, 100),
		"pending jobs":        jobs(store.JobFilter{Limit: 100, State: &pending}, 100),
		"the few dead jobs":   jobs(store.JobFilter{Limit: 100, State: &dead}, 3),
		"jobs of an endpoint": jobs(store.JobFilter{Limit: 100, Endpoint: hooks.Endpoint}, 100),
		"newest events": func(s *redis.Store) {
			if got, _, err := s.Events(t.Context(), store.EventFilter{Limit: 10}); err != nil || len(got) != 10 {
				t.Errorf("%d events, %v", len(got), err)
			}
		},
		"a health check": func(s *redis.Store) { must(t, s.Check(t.Context())) },
	} {
		// The fastest of several, in turns, so that a busy machine slows both alike.
		var fastest [2]time.Duration
		for range 7 {
			for i, s := range []*redis.Store{small, large} {
				start := time.Now()
				ask(s)
				if took := time.Since(start); fastest[i] == 0 || took < fastest[i] {
					fastest[i] = took
				}
			}
		}
		t.Logf("%s: %s among %d, %s among %d", name, fastest[0], few, fastest[1], many)
		if fastest[1] > 5*fastest[0]+time.Millisecond {
			t.Errorf("%s: %s among %d jobs, %s among %d", name, fastest[0], few, fastest[1], many)
		}
	}
}
