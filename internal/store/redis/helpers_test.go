package redis_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/redistest"
	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/store/redis"
)

var hooks = store.LaneID{Queue: "webhooks", Endpoint: "github/default"}

func newID() event.ID { return uuid.Must(uuid.NewV7()) }

// webhook is an event with one key and one job.
func webhook() store.Accept {
	return store.Accept{
		Event: event.Event{ID: newID(), Source: "github", Verified: true, Type: "push", ProviderID: "evt_1", Payload: []byte("payload")},
		Keys:  []store.Key{{Value: strings.ReplaceAll(newID().String()+newID().String(), "-", ""), TTL: time.Hour}},
		Jobs:  []store.NewJob{{ID: newID(), Queue: hooks.Queue, Endpoint: hooks.Endpoint}},
	}
}

// whileDown excuses go-redis' own goroutine that looks once a second whether a server is back, and so sees up to a second
// late that its pool is closed.
var whileDown = goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")

// noLeaks looks at the end of the test, when everything that it has started after this call is closed.
func noLeaks(t *testing.T, but ...goleak.Option) {
	t.Helper()
	but = append(but, goleak.IgnoreCurrent())
	t.Cleanup(func() {
		var leak error
		if !came(func() bool { leak = goleak.Find(but...); return leak == nil }) {
			t.Error(leak)
		}
	})
}

// on opens a store with the prefix "anvil" on a server. It waits for answers where Redis is slow, unless a test is about that.
func on(t testing.TB, s *redistest.Server, edits ...func(*redis.Options)) *redis.Store {
	t.Helper()
	o := redis.Options{Addr: s.Addr(), Prefix: "anvil", AcceptTimeout: time.Minute}
	for _, edit := range edits {
		edit(&o)
	}
	return open(t, o)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func accept(t testing.TB, s *redis.Store) store.Accept {
	t.Helper()
	a := webhook()
	acceptThis(t, s, a)
	return a
}

func acceptThis(t testing.TB, s *redis.Store, a store.Accept) {
	t.Helper()
	got, err := s.Accept(t.Context(), a)
	must(t, err)
	if got.Duplicate || got.EventID != a.Event.ID {
		t.Fatalf("accepting a new event answered %+v", got)
	}
}

func claim(t testing.TB, s *redis.Store, most int) (jobs []store.ClaimedJob, leases []store.Lease) {
	t.Helper()
	c := store.Claim{Token: newID(), Lanes: []store.Lane{{LaneID: hooks, Max: most}}, Lease: 30 * time.Second}
	got, err := s.Claim(t.Context(), c)
	must(t, err)
	for _, j := range got.Jobs {
		leases = append(leases, store.Lease{Job: j.Job.ID, Token: c.Token, Attempt: j.Job.Attempts, Lane: hooks})
	}
	return got.Jobs, leases
}

func outcome(l store.Lease, s event.State) store.Finish {
	f := store.Finish{Lease: l, State: s, Row: event.Attempt{Number: l.Attempt, StartedAt: time.UnixMilli(1), Class: event.ClassDelivered, Status: 200}}
	if s != event.Delivered {
		f.Row.Class, f.Row.Status, f.Row.Error = event.ClassStatus, 500, "failed"
	}
	if s == event.Dead {
		f.Reason = event.ReasonAttempts
	}
	return f
}

func finish(t testing.TB, s *redis.Store, f store.Finish) {
	t.Helper()
	if lost, err := s.Finish(t.Context(), f); err != nil || lost {
		t.Fatalf("finishing: lost %v, %v", lost, err)
	}
}

// kill brings the only due job to its end.
func kill(t testing.TB, s *redis.Store) event.ID {
	t.Helper()
	jobs, leases := claim(t, s, 1)
	if len(jobs) != 1 {
		t.Fatalf("%d jobs are due, want 1", len(jobs))
	}
	finish(t, s, outcome(leases[0], event.Dead))
	return jobs[0].Job.ID
}

func wantState(t testing.TB, s *redis.Store, id event.ID, want event.State) {
	t.Helper()
	if j, _, err := s.Job(t.Context(), id); err != nil || j.State != want {
		t.Fatalf("job is %v, %v; want %v", j.State, err, want)
	}
}

func pruneAll(t testing.TB, s *redis.Store, keep time.Duration) {
	t.Helper()
	var r store.Retention
	for i := range r.Default {
		r.Default[i] = keep
	}
	for more := true; more; {
		var err error
		more, err = s.Prune(t.Context(), r)
		must(t, err)
	}
}

// everything runs each script, most of them once, and leaves jobs in every state.
func everything(t testing.TB, s *redis.Store) {
	t.Helper()
	ctx := t.Context()
	must(t, s.Configured(ctx, []store.LaneID{hooks}))
	accept(t, s)
	dead := kill(t, s)
	_, err := s.Replay(ctx, dead, newID(), false)
	must(t, err)
	_, leases := claim(t, s, 1)
	finish(t, s, outcome(leases[0], event.Pending))
	_, leases = claim(t, s, 1)
	_, err = s.Release(ctx, leases[0])
	must(t, err)
	_, leases = claim(t, s, 1)
	_, err = s.Renew(ctx, leases, time.Second)
	must(t, err)
	s.Advance(time.Minute)
	if r, err := s.Recover(ctx); err != nil || len(r.Returned) != 1 {
		t.Fatalf("recovered %+v, %v", r, err)
	}
	_, leases = claim(t, s, 1)
	finish(t, s, outcome(leases[0], event.Delivered))
	brief := webhook()
	brief.Keys[0].TTL = time.Nanosecond // Redis counts milliseconds, and refuses none at all
	acceptThis(t, s, brief)
	_, err = s.Cancel(ctx, brief.Jobs[0].ID)
	must(t, err)
	observed := webhook()
	observed.Jobs[0].Observed = true
	acceptThis(t, s, observed)
	accept(t, s)
	s.Advance(time.Hour)
	if killed, err := s.Orphans(ctx, time.Minute, 10); err != nil || len(killed) != 1 {
		t.Fatalf("orphans %+v, %v", killed, err)
	}
	pruneAll(t, s, time.Hour) // some
	short := webhook()
	short.Keys[0].TTL = time.Minute
	acceptThis(t, s, short)
	kill(t, s)
	pruneAll(t, s, 0)
	s.Advance(time.Hour)
	pruneAll(t, s, 0)
	must(t, s.Check(ctx))
	for range 3 {
		accept(t, s)
	}
	jobs, _ := claim(t, s, 1)
	_, _, err = s.Job(ctx, jobs[0].Job.ID)
	must(t, err)
	_, _, err = s.Event(ctx, jobs[0].Job.EventID)
	must(t, err)
	must(t, s.Configured(ctx, []store.LaneID{hooks}))
	_, err = s.Stats(ctx)
	must(t, err)
	_, _, err = s.Jobs(ctx, store.JobFilter{Limit: 10})
	must(t, err)
	_, _, err = s.Events(ctx, store.EventFilter{Limit: 10})
	must(t, err)
}
