package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// together makes calls wait in the writer's queue, one behind the other, so that they fall into one transaction. held runs
// while they wait.
func together(s *Store, held func(), calls ...func()) {
	free := make(chan struct{})
	s.gaps <- func() { <-free }
	var all sync.WaitGroup
	for i, call := range calls {
		all.Go(call)
		for len(s.ops) <= i {
			runtime.Gosched()
		}
	}
	held()
	close(free)
	all.Wait()
}

func atOnce() {}

func TestAChangeThatCannotBeWrittenFailsNoOtherOfItsTransaction(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "anvil.db"))
	first := webhook(10)
	accept(t, s, first)
	bad := webhook(10)
	bad.Jobs[0].ID = first.Jobs[0].ID // which the database refuses
	webhooks := []store.Accept{webhook(10), bad, webhook(10)}
	errs := make([]error, len(webhooks))
	calls := make([]func(), len(webhooks))
	for i, a := range webhooks {
		calls[i] = func() { _, errs[i] = s.Accept(t.Context(), a) }
	}
	together(s, atOnce, calls...)
	if errs[0] != nil || !errors.Is(errs[1], store.ErrUnavailable) || errs[2] != nil {
		t.Errorf("accepting: %v; want an error of the second only", errs)
	}
	for i, a := range webhooks {
		if _, _, err := s.Event(t.Context(), a.Event.ID); errs[i] == nil && err != nil || errs[i] != nil && !errors.Is(err, store.ErrNotFound) {
			t.Errorf("event %d, which was answered %v, is there: %v", i, errs[i], err)
		}
	}
}

func TestWhoeverGivesUpWhileAChangeWaitsIsSureThatItDoesNotHappen(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "anvil.db"))
	given, stays := webhook(10), webhook(10)
	ctx, giveUp := context.WithCancel(t.Context())
	var err error
	left := make(chan struct{})
	together(s, func() { giveUp(); <-left },
		func() { _, err = s.Accept(ctx, given); close(left) },
		func() {
			if _, err := s.Accept(t.Context(), stays); err != nil {
				t.Error(err)
			}
		})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("giving up: %v", err)
	}
	if _, _, err := s.Event(t.Context(), given.Event.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the event whose sender was told that it is not stored: %v, want %v", err, store.ErrNotFound)
	}
	if _, _, err := s.Event(t.Context(), stays.Event.ID); err != nil {
		t.Errorf("the event behind it: %v", err)
	}
}

func TestAReleaseThatIsSentTwiceIntoOneTransactionGivesBackOneNumber(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "anvil.db"))
	a := webhook(10)
	accept(t, s, a)
	lease := claim(t, s, a, time.Hour)
	lost := make([]bool, 2)
	errs := make([]error, 2)
	release := func(i int) func() {
		return func() { lost[i], errs[i] = s.Release(t.Context(), lease) }
	}
	together(s, atOnce, release(0), release(1))
	if err := errors.Join(errs...); err != nil || lost[0] || lost[1] {
		t.Errorf("releasing: lost %v, %v", lost, err)
	}
	if next := claim(t, s, a, time.Hour); next.Attempt != 1 {
		t.Errorf("the next attempt has number %d, want 1 again", next.Attempt)
	}
}

func TestALifeWhoseOutcomeIsInTheTransactionOfARecoveryIsNotLost(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "anvil.db"))
	a := webhook(10)
	accept(t, s, a)
	lease := claim(t, s, a, time.Minute)
	s.Advance(time.Hour)
	var lost bool
	var found store.Recovered
	var errs [2]error
	row := event.Attempt{Number: 1, StartedAt: time.UnixMilli(1), Class: event.ClassDelivered, Status: 200}
	together(s, atOnce,
		func() {
			lost, errs[0] = s.Finish(t.Context(), store.Finish{Lease: lease, State: event.Delivered, Row: row})
		},
		func() { found, errs[1] = s.Recover(t.Context()) })
	if err := errors.Join(errs[:]...); err != nil || lost || len(found.Returned) != 0 {
		t.Errorf("lost %v, recovered %+v, %v; want the outcome to hold", lost, found, err)
	}
	j, rows, err := s.Job(t.Context(), a.Jobs[0].ID)
	if err != nil || j.State != event.Delivered || len(rows) != 1 || rows[0].Class != event.ClassDelivered {
		t.Errorf("the job is %v with rows %+v, %v; want it to be delivered", j.State, rows, err)
	}
}

// claim leases the job of a webhook.
func claim(t *testing.T, s *Store, a store.Accept, d time.Duration) store.Lease {
	t.Helper()
	lane := store.LaneID{Queue: a.Jobs[0].Queue, Endpoint: a.Jobs[0].Endpoint}
	c := store.Claim{Token: uuid.New(), Lease: d, Lanes: []store.Lane{{LaneID: lane, Max: 1}}}
	got, err := s.Claim(t.Context(), c)
	if err != nil || len(got.Jobs) != 1 {
		t.Fatalf("claimed %d jobs, %v; want 1", len(got.Jobs), err)
	}
	return store.Lease{Job: a.Jobs[0].ID, Token: c.Token, Attempt: got.Jobs[0].Job.Attempts, Lane: lane}
}
