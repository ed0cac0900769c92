package storetest

import (
	"errors"
	"time"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// longTTL: without a live key nothing needs to be remembered of a pruned job, so the tests of that give it one.
const longTTL = 10_000 * time.Hour

func pruneSpecs(it specify) {
	it("an empty store has nothing to prune", func(f *fixture) {
		more, err := f.store.Prune(f.Context(), keepFor(0))
		f.must(err)
		if more {
			f.Fatal("more is true")
		}
	})

	it("each final state has its own retention, counted from the end of the job", func(f *fixture) {
		retention := store.Retention{Default: store.StateRetention{
			event.Delivered: time.Hour, event.Dead: 2 * time.Hour, event.Cancelled: 3 * time.Hour,
			event.Replayed: 4 * time.Hour, event.Observed: 5 * time.Hour,
		}}
		jobs := map[event.State]store.Accept{}
		for i, state := range []event.State{event.Delivered, event.Dead, event.Cancelled, event.Replayed} {
			jobs[state] = f.accept(keyed(longTTL, key(i)), to(f.ownLane()))
		}
		f.store.Advance(10 * time.Hour)
		for _, state := range []event.State{event.Delivered, event.Dead, event.Cancelled} {
			f.bring(jobs[state], state)
		}
		replayed := jobs[event.Replayed]
		f.bring(replayed, event.Dead)
		f.wantCancelled(f.replay(replayed.Jobs[0].ID), true) // else its event stays for the copy
		jobs[event.Observed] = f.accept(keyed(longTTL, key(10)), observed)

		f.store.Advance(30 * time.Minute)
		for age := 30 * time.Minute; age < 6*time.Hour; age += time.Hour {
			f.pruneAll(retention)
			for state, a := range jobs {
				if age > retention.Default[state] {
					f.wantPruned(a, state)
				} else {
					f.wantState(a.Jobs[0].ID, state)
					f.event(a.Event.ID)
				}
			}
			f.store.Advance(time.Hour)
		}
	})

	it("a queue may have its own retention", func(f *fixture) {
		fast := store.LaneID{Queue: "fast", Endpoint: "github/default"}
		a, b := f.jobIn(event.Delivered, keyed(longTTL, key(1)), to(fast)), f.jobIn(event.Delivered, keyed(longTTL, key(2)))
		retention := keepFor(10 * time.Hour)
		retention.Queues = map[string]store.StateRetention{"fast": keepFor(time.Hour).Default, "unused": {}}
		f.store.Advance(2 * time.Hour)
		f.pruneAll(retention)
		f.wantPruned(a, event.Delivered)
		f.wantState(b.Jobs[0].ID, event.Delivered)
		f.store.Advance(9 * time.Hour)
		f.pruneAll(retention)
		f.wantPruned(b, event.Delivered)
	})

	it("keeps unfinished jobs for ever", func(f *fixture) {
		pending, running := f.jobIn(event.Pending), f.jobIn(event.Running)
		waiting := f.later(5000 * time.Hour)
		f.store.Advance(4000 * time.Hour)
		f.pruneAll(keepFor(time.Hour))
		f.wantState(running.Jobs[0].ID, event.Running)
		f.wantState(waiting.Jobs[0].ID, event.Pending)
		f.wantLedger(waiting.Jobs[0].ID, event.ClassStatus)
		for _, a := range []store.Accept{pending, running, waiting} {
			if e, _ := f.event(a.Event.ID); string(e.Payload) != "payload" {
				f.Fatalf("payload is %q", e.Payload)
			}
		}
		f.wantClaimed(f.claimAll(laneOf(pending)), pending.Jobs[0].ID)
	})

	it("keeps the payload until the last job of the event may go", func(f *fixture) {
		first, second := f.ownLane(), f.ownLane()
		a := f.accept(to(first, second), keyed(longTTL, key(1)))
		f.finish(delivered(f.claimOne(first)))
		f.store.Advance(2 * time.Hour)
		f.pruneAll(keepFor(time.Hour))
		f.event(a.Event.ID)
		jobs := f.claimAll(second)
		if len(jobs) != 1 || string(jobs[0].Event.Payload) != "payload" {
			f.Fatalf("claimed %+v, want one job with the payload", jobs)
		}
	})

	it("keeps the payload for a copy", func(f *fixture) {
		a := f.jobIn(event.Dead)
		copied := f.replay(a.Jobs[0].ID)
		f.store.Advance(2 * time.Hour)
		f.pruneAll(keepFor(time.Hour))
		jobs := f.claimAll(laneOf(a))
		f.wantClaimed(jobs, copied)
		if string(jobs[0].Event.Payload) != "payload" {
			f.Fatalf("payload is %q", jobs[0].Event.Payload)
		}
	})

	it("lists and stats leave pruned jobs out", func(f *fixture) {
		gone, kept := f.jobIn(event.Dead, keyed(longTTL, key(1))), f.jobIn(event.Delivered, keyed(longTTL, key(2)))
		retention := keepFor(10 * time.Hour)
		retention.Default[event.Dead] = time.Hour
		f.store.Advance(2 * time.Hour)
		f.pruneAll(retention)
		f.wantPruned(gone, event.Dead)
		f.wantListed(store.JobFilter{}, kept.Jobs[0].ID)
		f.wantSame([]event.ID{kept.Event.ID}, idsOfEvents(f.allEvents(store.EventFilter{Limit: 10})))
		f.wantStats(map[store.LaneID]counts{laneOf(kept): {event.Delivered: 1}})
	})

	it("a pruned job is neither replayed nor cancelled", func(f *fixture) {
		a := f.jobIn(event.Dead, keyed(longTTL, key(1)))
		f.store.Advance(2 * time.Hour)
		f.pruneAll(keepFor(time.Hour))
		for _, force := range []bool{false, true} {
			id := newID()
			_, err := f.store.Replay(f.Context(), a.Jobs[0].ID, id, force)
			f.wantErr(err, store.ErrPruned)
			_, _, err = f.store.Job(f.Context(), id)
			f.wantErr(err, store.ErrNotFound)
		}
		f.wantCancelled(a.Jobs[0].ID, false)
		f.wantPruned(a, event.Dead)
	})

	it("takes many in steps that come to an end", func(f *fixture) {
		const n = 350
		f.acceptMany(n)
		token, jobs := f.claim(time.Hour, n, hooks)
		f.parallel(20, func(i int) error {
			for j := i; j < len(jobs); j += 20 {
				if _, err := f.store.Finish(f.Context(), delivered(leaseOf(token, jobs[j]))); err != nil {
					return err
				}
			}
			return nil
		})
		kept := f.accept()
		f.store.Advance(2 * time.Hour)
		f.pruneAll(keepFor(time.Hour))
		f.wantListed(store.JobFilter{}, kept.Jobs[0].ID)
	})
}

func pruneKeySpecs(it specify) {
	it("a duplicate of a pruned event gets its ids until the end of the key", func(f *fixture) {
		a := f.jobIn(event.Delivered, keyed(10*time.Hour, key(1)), to(hooks))
		f.store.Advance(2 * time.Hour)
		f.pruneAll(keepFor(time.Hour))
		f.wantPruned(a, event.Delivered)
		f.wantDuplicate(webhook(keyed(time.Hour, key(1))), a)
		f.store.Advance(8*time.Hour + slack)
		b := f.accept(keyed(time.Hour, key(1)))
		f.wantClaimed(f.claimAll(hooks), b.Jobs[0].ID)
	})

	it("after the end of the keys nothing is left", func(f *fixture) {
		a := f.jobIn(event.Dead, keyed(10*time.Hour, key(1)), to(hooks))
		copied := f.replay(a.Jobs[0].ID)
		f.finish(delivered(f.claimOne(hooks)))
		f.store.Advance(2 * time.Hour)
		f.pruneAll(keepFor(time.Hour))
		f.wantPruned(a, event.Replayed)
		f.store.Advance(9 * time.Hour)
		f.pruneAll(keepFor(time.Hour))
		f.wantNothingOf(a)
		_, _, err := f.store.Job(f.Context(), copied)
		f.wantErr(err, store.ErrNotFound)
		f.accept(keyed(time.Hour, key(1)))
	})

	it("without keys nothing is left", func(f *fixture) {
		a := f.jobIn(event.Delivered)
		f.store.Advance(2 * time.Hour)
		f.pruneAll(keepFor(time.Hour))
		if _, _, err := f.store.Job(f.Context(), a.Jobs[0].ID); !errors.Is(err, store.ErrPruned) && !errors.Is(err, store.ErrNotFound) {
			f.Fatalf("error %v, want pruned or not found", err)
		}
		f.store.Advance(48 * time.Hour)
		f.pruneAll(keepFor(time.Hour))
		f.wantNothingOf(a)
	})

	it("the longest key decides how long the ids stay", func(f *fixture) {
		a := f.jobIn(event.Delivered, keyed(time.Hour, key(1)), keyed(20*time.Hour, key(2)), keyed(2*time.Hour, key(3)))
		f.store.Advance(10 * time.Hour)
		f.pruneAll(keepFor(time.Hour))
		f.wantPruned(a, event.Delivered)
		f.wantDuplicate(webhook(keyed(time.Hour, key(2))), a)
		f.accept(keyed(time.Hour, key(1)))
		f.accept(keyed(time.Hour, key(3)))
	})

	it("pruning an event leaves alone the key that another has taken since", func(f *fixture) {
		f.jobIn(event.Delivered, keyed(time.Hour, key(1)))
		f.store.Advance(2 * time.Hour)
		b := f.accept(keyed(longTTL, key(1)))
		f.store.Advance(2 * time.Hour)
		f.pruneAll(keepFor(time.Hour))
		f.wantDuplicate(webhook(keyed(time.Hour, key(1))), b)
	})

	it("a key outlives its pruned event over a restart", func(f *fixture) {
		a := f.jobIn(event.Delivered, keyed(longTTL, key(1)))
		f.pruneAll(keepFor(0))
		f.wantPruned(a, event.Delivered)
		f.restart()
		f.wantPruned(a, event.Delivered)
		f.wantDuplicate(webhook(keyed(time.Hour, key(1))), a)
	})

	it("a key stays as long as its event although its own time is over sooner", func(f *fixture) {
		a := f.jobIn(event.Delivered, keyed(time.Hour, key(1)))
		f.store.Advance(2 * time.Hour)
		f.pruneAll(keepFor(10 * time.Hour))
		f.wantState(a.Jobs[0].ID, event.Delivered)
		if e, _ := f.event(a.Event.ID); string(e.Payload) != "payload" {
			f.Fatalf("payload is %q", e.Payload)
		}
	})
}

// keepFor keeps every final state for d.
func keepFor(d time.Duration) (r store.Retention) {
	for _, state := range event.States() {
		r.Default[state] = d
	}
	return r
}

// pruneAll prunes until there is no more to do.
func (f *fixture) pruneAll(r store.Retention) {
	f.Helper()
	for range 10_000 {
		more, err := f.store.Prune(f.Context(), r)
		f.must(err)
		if !more {
			return
		}
	}
	f.Fatal("pruning does not end")
}

// wantPruned wants that the job is remembered with its final state and nothing else is left of the event.
func (f *fixture) wantPruned(a store.Accept, final event.State) {
	f.Helper()
	j, rows, err := f.store.Job(f.Context(), a.Jobs[0].ID)
	f.wantErr(err, store.ErrPruned)
	if j.ID != a.Jobs[0].ID || j.State != final || !j.Pruned || len(rows) != 0 {
		f.Fatalf("job is %+v with %d rows, want it pruned as %v", j, len(rows), final)
	}
	_, _, err = f.store.Event(f.Context(), a.Event.ID)
	f.wantErr(err, store.ErrPruned)
}
