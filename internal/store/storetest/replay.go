package storetest

import (
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

func replaySpecs(it specify) {
	it("makes a fresh copy and marks the old job", func(f *fixture) {
		a := f.accept(from("github", "acme"), payload([]byte("kept")))
		f.finish(failed(f.claimOne(hooks), 0))
		f.finish(dead(f.claimOne(hooks)))
		before := f.snapshot(a.Jobs[0].ID)
		f.store.Advance(time.Hour)
		id := f.replay(a.Jobs[0].ID)

		old := f.snapshot(a.Jobs[0].ID)
		if old.Job.State != event.Replayed {
			f.Fatalf("the old job is %v, want replayed", old.Job.State)
		}
		old.Job.State, old.Job.EndedAt = event.Dead, before.Job.EndedAt
		if diff := cmp.Diff(before, old); diff != "" {
			f.Fatalf("old job (-dead +replayed):\n%s", diff)
		}

		got := f.job(id)
		want := event.Job{
			ID: id, EventID: a.Event.ID, Source: "github", Tenant: "acme", EventType: "push", ProviderID: "evt_1",
			Queue: hooks.Queue, Endpoint: hooks.Endpoint, State: event.Pending, ReplayOf: a.Jobs[0].ID,
			CreatedAt: got.CreatedAt, RunAt: got.RunAt,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			f.Fatalf("copy (-want +got):\n%s", diff)
		}
		f.wantAbout("time from the old job to the copy", got.CreatedAt.Sub(old.Job.CreatedAt), time.Hour)
		f.wantLedger(id)

		jobs := f.claimAll(hooks)
		f.wantClaimed(jobs, id)
		if c := jobs[0]; c.Job.Attempts != 1 || string(c.Event.Payload) != "kept" || c.Event.ID != a.Event.ID {
			f.Fatalf("claimed %+v", c)
		}
	})

	it("the event shows the copies beside its jobs", func(f *fixture) {
		a := f.accept(to(hooks, f.ownLane()))
		f.finish(dead(f.claimOne(hooks)))
		first := f.replay(a.Jobs[0].ID)
		f.finish(dead(f.claimOne(hooks)))
		second := f.replay(first)
		_, jobs := f.event(a.Event.ID)
		got := map[event.ID]event.State{}
		for _, j := range jobs {
			got[j.ID] = j.State
		}
		want := map[event.ID]event.State{
			a.Jobs[0].ID: event.Replayed, a.Jobs[1].ID: event.Pending, first: event.Replayed, second: event.Pending,
		}
		if diff := cmp.Diff(want, got); diff != "" || len(jobs) != len(want) {
			f.Fatalf("jobs (-want +got):\n%s", diff)
		}
	})

	it("a copy has a full schedule of its own", func(f *fixture) {
		a := f.jobIn(event.Dead, to(hooks))
		id := f.replay(a.Jobs[0].ID)
		f.finish(failed(f.claimOne(hooks), 0))
		f.finish(dead(f.claimOne(hooks)))
		if j := f.job(id); j.State != event.Dead || j.Failures != 2 || j.Attempts != 2 {
			f.Fatalf("copy is %+v", j)
		}
		f.wantLedger(id, event.ClassStatus, event.ClassTimeout)
		f.wantLedger(a.Jobs[0].ID, event.ClassTimeout)
	})

	it("leaves the keys as they are", func(f *fixture) {
		a := f.jobIn(event.Dead, keyed(time.Hour, key(1)))
		id := f.replay(a.Jobs[0].ID)
		f.wantDuplicate(webhook(keyed(time.Hour, key(1))), a)
		f.finish(delivered(f.claimOne(laneOf(a))))
		f.wantState(id, event.Delivered)
		f.wantDuplicate(webhook(keyed(time.Hour, key(1))), a)
		f.store.Advance(time.Hour + slack)
		f.accept(keyed(time.Hour, key(1)))
	})

	it("works at a full backlog", func(f *fixture) {
		a := f.jobIn(event.Dead)
		f.accept(limited(1))
		f.wantBacklog(webhook(limited(1)))
		f.replay(a.Jobs[0].ID)
		f.wantBacklog(webhook(limited(2)))
	})

	it("sent again gives the first answer and no second copy", func(f *fixture) {
		a := f.jobIn(event.Dead)
		id := newID()
		f.wantReplayed(a.Jobs[0].ID, id, false)
		f.wantReplayed(a.Jobs[0].ID, id, false)
		f.wantClaimed(f.claimAll(laneOf(a)), id)
		f.wantReplayed(a.Jobs[0].ID, id, false)
		f.wantState(id, event.Running)
	})

	it("forced and sent again gives the first answer and no second copy", func(f *fixture) {
		a := f.jobIn(event.Delivered)
		id := newID()
		f.wantReplayed(a.Jobs[0].ID, id, true)
		f.wantReplayed(a.Jobs[0].ID, id, true)
		f.wantClaimed(f.claimAll(laneOf(a)), id)
	})

	for _, state := range []event.State{event.Delivered, event.Replayed, event.Dead} {
		it(fmt.Sprintf("forced copies a job that is %v", state), func(f *fixture) {
			a := f.jobIn(state)
			f.claimAll(laneOf(a)) // the copy that made it replayed
			for range 2 {
				id := newID()
				f.wantReplayed(a.Jobs[0].ID, id, true)
				f.wantClaimed(f.claimAll(laneOf(a)), id)
				if got := f.job(id).ReplayOf; got != a.Jobs[0].ID {
					f.Fatalf("replay of %v, want %v", got, a.Jobs[0].ID)
				}
			}
			want := state
			if state == event.Dead {
				want = event.Replayed
			}
			f.wantState(a.Jobs[0].ID, want)
		})
	}
}

func replayRefusedSpecs(it specify) {
	for _, state := range event.States() {
		for _, force := range []bool{false, true} {
			switch {
			case state == event.Dead, force && (state == event.Delivered || state == event.Replayed):
				continue
			}
			it(fmt.Sprintf("a job that is %v, force %v", state, force), func(f *fixture) {
				a := f.jobIn(state)
				_, before := f.event(a.Event.ID)
				id := newID()
				got, err := f.store.Replay(f.Context(), a.Jobs[0].ID, id, force)
				f.must(err)
				if want := (store.Replayed{State: state}); got != want {
					f.Fatalf("answer %+v, want %+v", got, want)
				}
				_, _, err = f.store.Job(f.Context(), id)
				f.wantErr(err, store.ErrNotFound)
				if _, after := f.event(a.Event.ID); !cmp.Equal(before, after) {
					f.Fatalf("jobs (-before +after):\n%s", cmp.Diff(before, after))
				}
			})
		}
	}

	it("an unknown job", func(f *fixture) {
		for _, force := range []bool{false, true} {
			_, err := f.store.Replay(f.Context(), newID(), newID(), force)
			f.wantErr(err, store.ErrNotFound)
		}
	})
}

// wantReplayed wants the answer that a copy was made. The state in it matters only when it forbids the replay.
func (f *fixture) wantReplayed(job, newJob event.ID, force bool) {
	f.Helper()
	got, err := f.store.Replay(f.Context(), job, newJob, force)
	f.must(err)
	if !got.Replayed {
		f.Fatalf("replay is refused in state %v", got.State)
	}
}
