package storetest

import (
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// counts are jobs by state.
type counts [7]int64

func statsSpecs(it specify) {
	const lease = 10 * time.Minute

	it("an empty store counts nothing", func(f *fixture) {
		f.wantStats(nil)
	})

	it("every transition is counted", func(f *fixture) {
		var l store.Lease
		var a store.Accept
		finish := func(outcome func(store.Lease) store.Finish) func() {
			return func() { f.finish(outcome(f.claimOne(hooks))) }
		}
		steps := []struct {
			name string
			do   func()
			want counts
		}{
			{"accept", func() { a = f.accept(keyed(time.Hour, key(1))) }, counts{event.Pending: 1}},
			{"duplicate", func() { f.wantDuplicate(webhook(keyed(time.Hour, key(1))), a) }, counts{event.Pending: 1}},
			{"full backlog", func() { f.wantBacklog(webhook(limited(1))) }, counts{event.Pending: 1}},
			{"claim", func() { l = f.claimOneFor(lease, hooks) }, counts{event.Running: 1}},
			{"give back", func() { f.release(l) }, counts{event.Pending: 1}},
			{"lease run out", func() { f.claimOneFor(lease, hooks); f.store.Advance(2 * lease) }, counts{event.Running: 1}},
			{"recover", func() { f.wantRecovered(1) }, counts{event.Pending: 1}},
			{"retry", finish(func(l store.Lease) store.Finish { return failed(l, time.Hour) }), counts{event.Pending: 1}},
			{"due again", func() { f.store.Advance(time.Hour + slack) }, counts{event.Pending: 1}},
			{"dead", finish(dead), counts{event.Dead: 1}},
			{"replay", func() { f.replay(a.Jobs[0].ID) }, counts{event.Pending: 1, event.Replayed: 1}},
			{"delivered", finish(delivered), counts{event.Delivered: 1, event.Replayed: 1}},
			{"accept two", func() { a = f.accept(to(hooks, hooks)) }, counts{event.Pending: 2, event.Delivered: 1, event.Replayed: 1}},
			{
				"cancel", func() { f.wantCancelled(a.Jobs[0].ID, true) },
				counts{event.Pending: 1, event.Cancelled: 1, event.Delivered: 1, event.Replayed: 1},
			},
			{
				"orphan", func() { f.store.Advance(time.Hour); f.wantKilled(time.Minute, a.Jobs[1].ID) },
				counts{event.Dead: 1, event.Cancelled: 1, event.Delivered: 1, event.Replayed: 1},
			},
			{"prune", func() { f.store.Advance(time.Hour); f.pruneAll(keepFor(time.Minute)) }, counts{}},
		}
		for _, s := range steps {
			s.do()
			f.Log("after", s.name)
			f.wantStats(map[store.LaneID]counts{hooks: s.want})
		}
	})

	it("counts each lane apart", func(f *fixture) {
		slow, ci := store.LaneID{Queue: "slow", Endpoint: "stripe/default"}, store.LaneID{Queue: "webhooks", Endpoint: "stripe/ci"}
		f.accept()
		f.accept(from("stripe", ""), to(slow, slow, ci))
		f.jobIn(event.Delivered, from("stripe", "acme"), to(store.LaneID{Queue: "slow", Endpoint: "stripe/ci"}))
		f.accept(observed)
		f.wantStats(map[store.LaneID]counts{
			hooks: {event.Pending: 1}, slow: {event.Pending: 2}, ci: {event.Pending: 1},
			{Queue: "slow", Endpoint: "stripe/ci"}:    {event.Delivered: 1},
			{Queue: hooks.Queue, Endpoint: "github/"}: {event.Observed: 1},
		})
	})

	it("names the source of a lane", func(f *fixture) {
		f.accept(from("stripe", "acme"))
		f.accept(observed)
		for _, l := range f.stats().Lanes {
			if want := map[string]string{"stripe/default": "stripe", "github/": "github"}[l.Endpoint]; l.Source != want {
				f.Fatalf("lane %v is of source %q, want %q", l.LaneID, l.Source, want)
			}
		}
	})

	it("the oldest pending job is the one created first, due or not", func(f *fixture) {
		f.wantOldest(0)
		f.accept()
		f.store.Advance(time.Hour)
		f.wantOldest(time.Hour)
		second := f.accept()
		f.store.Advance(time.Hour)
		f.wantOldest(2 * time.Hour)
		token, jobs := f.claim(time.Hour, 1, hooks)
		f.wantOldest(time.Hour)
		f.finish(failed(leaseOf(token, jobs[0]), 10*time.Hour))
		f.wantOldest(2 * time.Hour)
		f.store.Advance(time.Hour)
		f.wantCancelled(jobs[0].Job.ID, true)
		f.wantOldest(2 * time.Hour)
		f.wantCancelled(second.Jobs[0].ID, true)
		f.wantOldest(0)
	})

	it("the counts equal the truth after any mix of transitions and after a restart", func(f *fixture) {
		m := newModel(f)
		for range 3 {
			m.run(150)
			f.wantStats(m.counts())
			m.wantLists()
		}
		f.store.Advance(2 * modelLease) // ends the leases, which not every store does at a restart
		m.recover()
		before := f.counted()
		f.restart()
		f.wantStats(before)
	})
}

func (f *fixture) stats() store.Stats {
	f.Helper()
	st, err := f.store.Stats(f.Context())
	f.must(err)
	return st
}

// counted are the counts of the lanes that have any job.
func (f *fixture) counted() map[store.LaneID]counts {
	f.Helper()
	got := map[store.LaneID]counts{}
	for _, l := range f.stats().Lanes {
		if _, twice := got[l.LaneID]; twice {
			f.Fatalf("lane %v is told twice", l.LaneID)
		}
		if l.Jobs != (counts{}) {
			got[l.LaneID] = l.Jobs
		}
	}
	return got
}

// wantStats wants these counts; lanes without a job may be missing.
func (f *fixture) wantStats(want map[store.LaneID]counts) {
	f.Helper()
	filled := map[store.LaneID]counts{}
	for id, c := range want {
		if c != (counts{}) {
			filled[id] = c
		}
	}
	if diff := cmp.Diff(filled, f.counted()); diff != "" {
		f.Fatalf("jobs of %v by lane (-want +counted):\n%s", event.States(), diff)
	}
}

func (f *fixture) wantOldest(want time.Duration) {
	f.Helper()
	got := time.Duration(0)
	for _, l := range f.stats().Lanes {
		if l.LaneID == hooks {
			got = l.OldestPending
		}
	}
	if want == 0 && got != 0 || got < want || got > want+slack {
		f.Fatalf("the oldest pending job is %v old, want %v", got, want)
	}
}
