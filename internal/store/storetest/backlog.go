package storetest

import (
	"time"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// limited sets the limit of every queue of a webhook.
func limited(most int) edit {
	return func(a *store.Accept) {
		if a.Jobs == nil {
			to(hooks)(a)
		}
		for i := range a.Jobs {
			a.Jobs[i].MaxPending = most
		}
	}
}

func (f *fixture) wantBacklog(a store.Accept) {
	f.Helper()
	_, err := f.store.Accept(f.Context(), a)
	f.wantErr(err, store.ErrBacklog)
	f.wantNothingOf(a)
}

func backlogSpecs(it specify) {
	it("a queue takes as many unfinished jobs as its limit and no more", func(f *fixture) {
		for range 3 {
			f.accept(limited(3))
		}
		f.wantBacklog(webhook(limited(3)))
		f.accept(limited(4))
	})

	it("zero means no limit", func(f *fixture) {
		for range 20 {
			f.accept(limited(0))
		}
	})

	it("running and waiting jobs count", func(f *fixture) {
		f.jobIn(event.Running)
		lane := f.ownLane()
		f.accept(to(lane))
		f.finish(failed(f.claimOne(lane), time.Hour))
		f.wantBacklog(webhook(limited(2)))
		f.accept(limited(3))
	})

	for _, state := range event.States() {
		if !state.Final() || state == event.Replayed { // a replayed job has a pending copy, which counts
			continue
		}
		it(state.String()+" jobs do not count", func(f *fixture) {
			f.jobIn(state)
			f.accept(limited(1))
		})
	}

	it("every lane of a queue counts, no other queue does", func(f *fixture) {
		f.accept(to(store.LaneID{Queue: "slow", Endpoint: hooks.Endpoint}, store.LaneID{Queue: "slow", Endpoint: "github/ci"}))
		f.accept(limited(1))
		f.wantBacklog(webhook(to(store.LaneID{Queue: "slow", Endpoint: "github/third"}), limited(2)))
	})

	it("the jobs of one event count each", func(f *fixture) {
		f.accept()
		f.wantBacklog(webhook(to(hooks, f.ownLane()), limited(2)))
		f.accept(to(hooks, f.ownLane()), limited(3))
	})

	it("one full queue of several refuses the whole event", func(f *fixture) {
		slow := store.LaneID{Queue: "slow", Endpoint: "github/default"}
		f.accept(to(slow))
		f.wantBacklog(webhook(to(hooks, slow), limited(1)))
		f.wantBacklog(webhook(to(slow, hooks), limited(1)))
		f.accept(limited(1))
	})

	it("a refused event claims no key", func(f *fixture) {
		f.accept(to(hooks))
		f.wantBacklog(webhook(keyed(time.Hour, key(1)), limited(1)))
		f.accept(keyed(time.Hour, key(1)), limited(2))
	})

	it("a refused event may be sent again when there is room", func(f *fixture) {
		f.accept()
		a := webhook(keyed(time.Hour, key(1)), limited(1))
		f.wantBacklog(a)
		f.finish(delivered(f.claimOne(hooks)))
		f.wantFirst(a)
	})

	it("a duplicate is answered at a full backlog", func(f *fixture) {
		first := f.accept(keyed(time.Hour, key(1)), limited(1))
		f.wantDuplicate(webhook(keyed(time.Hour, key(1)), limited(1)), first)
	})

	it("the count is right after a restart", func(f *fixture) {
		f.accept()
		f.jobIn(event.Delivered)
		f.jobIn(event.Running)
		f.restart()
		f.wantBacklog(webhook(limited(2)))
		f.accept(limited(3))
	})
}
