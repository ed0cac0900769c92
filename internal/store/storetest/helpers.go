package storetest

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// accept stores a new webhook and checks that it is the first.
func (f *fixture) accept(edits ...edit) store.Accept {
	f.Helper()
	a := webhook(edits...)
	f.wantFirst(a)
	return a
}

// wantFirst accepts a and wants the answer of an event that is not a duplicate.
func (f *fixture) wantFirst(a store.Accept) {
	f.Helper()
	f.wantAccepted(a, store.Accepted{EventID: a.Event.ID, JobIDs: jobIDs(a)})
}

// wantDuplicate accepts a and wants the ids of first and nothing stored.
func (f *fixture) wantDuplicate(a, first store.Accept) {
	f.Helper()
	f.wantAccepted(a, store.Accepted{EventID: first.Event.ID, JobIDs: jobIDs(first), Duplicate: true})
	f.wantNothingOf(a)
}

func (f *fixture) wantAccepted(a store.Accept, want store.Accepted) {
	f.Helper()
	got, err := f.store.Accept(f.Context(), a)
	f.must(err)
	if diff := cmp.Diff(want, got); diff != "" {
		f.Fatalf("answer to accept (-want +got):\n%s", diff)
	}
}

// wantNothingOf wants no trace of a.
func (f *fixture) wantNothingOf(a store.Accept) {
	f.Helper()
	_, _, err := f.store.Event(f.Context(), a.Event.ID)
	f.wantErr(err, store.ErrNotFound)
	for _, id := range jobIDs(a) {
		_, _, err := f.store.Job(f.Context(), id)
		f.wantErr(err, store.ErrNotFound)
	}
}

func (f *fixture) wantErr(err, want error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Fatalf("error %v, want %v", err, want)
	}
}

// claimAll leases every due job of the lanes for an hour.
func (f *fixture) claimAll(lanes ...store.LaneID) []store.ClaimedJob {
	f.Helper()
	_, jobs := f.claim(time.Hour, 1000, lanes...)
	return jobs
}

func (f *fixture) claim(lease time.Duration, most int, lanes ...store.LaneID) (token event.ID, jobs []store.ClaimedJob) {
	f.Helper()
	c := claimOf(most, lanes...)
	c.Lease = lease
	got, err := f.store.Claim(f.Context(), c)
	f.must(err)
	return c.Token, got.Jobs
}

func claimOf(most int, lanes ...store.LaneID) store.Claim {
	c := store.Claim{Token: newID(), Lease: time.Hour}
	for _, l := range lanes {
		c.Lanes = append(c.Lanes, store.Lane{LaneID: l, Max: most})
	}
	return c
}

// claimOne leases the only due job of a lane for an hour.
func (f *fixture) claimOne(lane store.LaneID) store.Lease {
	f.Helper()
	return f.claimOneFor(time.Hour, lane)
}

func (f *fixture) claimOneFor(lease time.Duration, lane store.LaneID) store.Lease {
	f.Helper()
	token, jobs := f.claim(lease, 1000, lane)
	if len(jobs) != 1 {
		f.Fatalf("claimed %d jobs of %v, want 1", len(jobs), lane)
	}
	return leaseOf(token, jobs[0])
}

func leaseOf(token event.ID, c store.ClaimedJob) store.Lease {
	return store.Lease{
		Job: c.Job.ID, Token: token, Attempt: c.Job.Attempts, Lane: store.LaneID{Queue: c.Job.Queue, Endpoint: c.Job.Endpoint},
	}
}

func (f *fixture) wantClaimed(jobs []store.ClaimedJob, want ...event.ID) {
	f.Helper()
	got := make([]event.ID, len(jobs))
	for i, j := range jobs {
		got[i] = j.Job.ID
	}
	if !slices.Equal(got, want) {
		f.Fatalf("claimed %v, want %v", got, want)
	}
}

func delivered(l store.Lease) store.Finish {
	return store.Finish{Lease: l, State: event.Delivered, Row: row(l, event.ClassDelivered, "")}
}

func failed(l store.Lease, retryIn time.Duration) store.Finish {
	return store.Finish{Lease: l, State: event.Pending, RetryIn: retryIn, Row: row(l, event.ClassStatus, "failed")}
}

func dead(l store.Lease) store.Finish {
	return store.Finish{Lease: l, State: event.Dead, Reason: event.ReasonAttempts, Row: row(l, event.ClassTimeout, "timed out")}
}

// row is a row of the ledger with every field set. Times have milliseconds: no store keeps less.
func row(l store.Lease, class event.Class, text string) event.Attempt {
	return event.Attempt{
		Number: l.Attempt, StartedAt: time.UnixMilli(1_700_000_000_123).UTC(), Duration: 1234 * time.Millisecond,
		Status: map[event.Class]int{event.ClassDelivered: 204, event.ClassStatus: 503}[class],
		Class:  class, Error: text, Snippet: "answer of the endpoint ✓",
	}
}

// finish ends a life and wants the lease to be good.
func (f *fixture) finish(fin store.Finish) {
	f.Helper()
	lost, err := f.store.Finish(f.Context(), fin)
	f.must(err)
	if lost {
		f.Fatalf("finishing attempt %d of %v as %v: lost, want it to be ours", fin.Attempt, fin.Job, fin.State)
	}
}

// jobIn brings a new job into a state, in a lane of its own unless the edits name one that nothing else is due in.
func (f *fixture) jobIn(state event.State, edits ...edit) store.Accept {
	f.Helper()
	if state == event.Observed {
		return f.accept(append(edits, observed)...)
	}
	a := webhook(append(edits, func(a *store.Accept) {
		if a.Jobs == nil {
			to(f.ownLane())(a)
		}
	})...)
	f.wantFirst(a)
	f.bring(a, state)
	return a
}

// bring takes the job of a, pending and the only due one of its lane, into a state.
func (f *fixture) bring(a store.Accept, state event.State) {
	f.Helper()
	id, lane := a.Jobs[0].ID, laneOf(a)
	switch state {
	case event.Pending, event.Observed: // as it was accepted
	case event.Running:
		f.claimOne(lane)
	case event.Delivered:
		f.finish(delivered(f.claimOne(lane)))
	case event.Dead, event.Replayed:
		f.finish(dead(f.claimOne(lane)))
		if state == event.Replayed {
			f.replay(id)
		}
	case event.Cancelled:
		if ok, err := f.store.Cancel(f.Context(), id); err != nil || !ok {
			f.Fatalf("cancelling a pending job: %v, %v", ok, err)
		}
	}
	f.wantState(id, state)
}

// replay makes a copy of a dead job.
func (f *fixture) replay(job event.ID) (copied event.ID) {
	f.Helper()
	copied = newID()
	got, err := f.store.Replay(f.Context(), job, copied, false)
	f.must(err)
	if !got.Replayed {
		f.Fatalf("replaying a dead job is refused in state %v", got.State)
	}
	return copied
}

func (f *fixture) job(id event.ID) event.Job {
	f.Helper()
	j, _, err := f.store.Job(f.Context(), id)
	f.must(err)
	return j
}

func (f *fixture) ledger(id event.ID) []event.Attempt {
	f.Helper()
	_, rows, err := f.store.Job(f.Context(), id)
	f.must(err)
	return rows
}

func (f *fixture) event(id event.ID) (event.Event, []event.Job) {
	f.Helper()
	e, jobs, err := f.store.Event(f.Context(), id)
	f.must(err)
	return e, jobs
}

func (f *fixture) wantState(id event.ID, want event.State) {
	f.Helper()
	if got := f.job(id).State; got != want {
		f.Fatalf("job is %v, want %v", got, want)
	}
}

// wantLedger wants rows of these classes, numbered from 1.
func (f *fixture) wantLedger(id event.ID, want ...event.Class) {
	f.Helper()
	rows := f.ledger(id)
	got := make([]event.Class, len(rows))
	for i, r := range rows {
		got[i] = r.Class
		if r.Number != i+1 {
			f.Fatalf("row %d has number %d", i+1, r.Number)
		}
	}
	if !slices.Equal(got, want) {
		f.Fatalf("ledger has rows %v, want %v", got, want)
	}
}

// wantAbout wants a duration of the store's clock, give or take the time that the test itself took.
func (f *fixture) wantAbout(what string, got, want time.Duration) {
	f.Helper()
	if got < want-slack || got > want+slack {
		f.Fatalf("%s is %v, want about %v", what, got, want)
	}
}

// allJobs and allEvents walk a list to its end, whatever the size of its pages.
func (f *fixture) allJobs(filter store.JobFilter) []event.Job {
	f.Helper()
	return walk(f, func(cursor string) ([]event.Job, string, error) {
		filter.Cursor = cursor
		return f.store.Jobs(f.Context(), filter)
	}, filter.Limit)
}

func (f *fixture) allEvents(filter store.EventFilter) []event.Event {
	f.Helper()
	return walk(f, func(cursor string) ([]event.Event, string, error) {
		filter.Cursor = cursor
		return f.store.Events(f.Context(), filter)
	}, filter.Limit)
}

func walk[T any](f *fixture, page func(cursor string) ([]T, string, error), limit int) (all []T) {
	f.Helper()
	cursor := ""
	for range 100_000 {
		items, next, err := page(cursor)
		f.must(err)
		if len(items) > limit {
			f.Fatalf("a page has %d entries, the limit is %d", len(items), limit)
		}
		all = append(all, items...)
		if next == "" {
			return all
		}
		cursor = next
	}
	f.Fatal("the walk does not end")
	return nil
}

// parallel runs fn n times at once and fails with all errors.
func (f *fixture) parallel(n int, fn func(i int) error) {
	f.Helper()
	start, errs := make(chan struct{}), make(chan error, n)
	for i := range n {
		go func() {
			<-start
			errs <- fn(i)
		}()
	}
	close(start)
	var all []error
	for range n {
		all = append(all, <-errs)
	}
	f.must(errors.Join(all...))
}

// crowd runs fn n times at once while others keep the store busy, so that several of them fall into one group commit.
func (f *fixture) crowd(n int, fn func(i int) error) {
	f.Helper()
	const others = 4
	var left atomic.Int64
	left.Store(int64(n))
	f.parallel(n+others, func(i int) error {
		if i >= others {
			defer left.Add(-1)
			return fn(i - others)
		}
		for left.Load() > 0 {
			a := webhook(to(store.LaneID{Queue: "crowd", Endpoint: "github/crowd"}))
			if _, err := f.store.Accept(f.Context(), a); err != nil {
				return err
			}
		}
		return nil
	})
}
