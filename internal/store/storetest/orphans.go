package storetest

import (
	"slices"
	"time"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

func orphanSpecs(it specify) {
	const after = 24 * time.Hour

	it("kills the due jobs of a lane that nobody has configured for too long", func(f *fixture) {
		f.configured(hooks)
		a := f.accept()
		f.finish(failed(f.claimOne(hooks), 0))
		f.store.Advance(after + slack)
		killed := f.orphans(after, 10)
		if len(killed) != 1 || killed[0].ID != a.Jobs[0].ID {
			f.Fatalf("killed %v, want the one job", idsOfJobs(killed))
		}
		for _, j := range []event.Job{killed[0], f.job(a.Jobs[0].ID)} {
			if j.State != event.Dead || j.DeadReason != event.ReasonNoEndpoint || j.Attempts != 1 || j.Failures != 1 ||
				j.Source != "github" || j.Endpoint != hooks.Endpoint {
				f.Fatalf("job is %+v", j)
			}
			f.wantAbout("time from creation to end", j.EndedAt.Sub(j.CreatedAt), after+slack)
		}
		f.wantLedger(a.Jobs[0].ID, event.ClassStatus)
		f.wantClaimed(f.claimAll(hooks))
	})

	it("kills those of a lane that nobody has ever configured", func(f *fixture) {
		a := f.accept()
		f.wantKilled(after)
		f.store.Advance(after + slack)
		f.wantKilled(after, a.Jobs[0].ID)
	})

	it("keeps the jobs of a lane that was configured recently", func(f *fixture) {
		a := f.accept()
		f.store.Advance(after)
		f.configured(hooks)
		f.store.Advance(after - slack)
		f.wantKilled(after)
		f.configured(hooks)
		f.store.Advance(after - slack)
		f.wantKilled(after)
		f.wantState(a.Jobs[0].ID, event.Pending)
		f.store.Advance(2 * slack)
		f.wantKilled(after, a.Jobs[0].ID)
	})

	it("a lane may be configured before it has a job", func(f *fixture) {
		f.store.Advance(time.Second)
		f.configured(hooks)
		a := f.accept()
		f.store.Advance(after + slack)
		f.wantKilled(after, a.Jobs[0].ID)
	})

	it("tells lanes apart by queue and by endpoint", func(f *fixture) {
		slow, ci := store.LaneID{Queue: "slow", Endpoint: hooks.Endpoint}, store.LaneID{Queue: hooks.Queue, Endpoint: "github/ci"}
		a := f.accept(to(hooks, slow, ci))
		f.store.Advance(after + slack)
		f.configured(hooks, ci)
		f.wantKilled(after, a.Jobs[1].ID)
		f.wantState(a.Jobs[0].ID, event.Pending)
		f.wantState(a.Jobs[2].ID, event.Pending)
	})

	it("keeps jobs that have not been due for so long", func(f *fixture) {
		waiting := f.later(48 * time.Hour)
		f.store.Advance(after + slack)
		fresh := f.accept()
		f.store.Advance(after - 2*slack)
		f.wantKilled(after)
		f.store.Advance(3 * slack)
		f.wantKilled(after, fresh.Jobs[0].ID)
		f.wantState(waiting.Jobs[0].ID, event.Pending)
		f.store.Advance(after)
		f.wantKilled(after, waiting.Jobs[0].ID)
	})

	it("kills pending jobs only", func(f *fixture) {
		for _, state := range event.States() {
			if state != event.Pending && state != event.Replayed {
				f.jobIn(state)
			}
		}
		f.store.Advance(after + slack)
		f.wantKilled(after)
	})

	it("kills no more than the limit at once", func(f *fixture) {
		var all []event.ID
		for _, lane := range []store.LaneID{f.ownLane(), f.ownLane()} { // the limit is for both together
			all = append(all, jobIDs(f.accept(to(lane, lane, lane)))...)
		}
		f.store.Advance(after + slack)
		var got []event.ID
		for _, want := range []int{2, 2, 2, 0} {
			killed := f.orphans(after, 2)
			if len(killed) != want {
				f.Fatalf("killed %d jobs, want %d", len(killed), want)
			}
			got = append(got, idsOfJobs(killed)...)
		}
		f.wantSame(all, got)
	})

	it("a killed job can be replayed", func(f *fixture) {
		a := f.accept()
		f.store.Advance(after + slack)
		f.wantKilled(after, a.Jobs[0].ID)
		copied := f.replay(a.Jobs[0].ID)
		f.wantKilled(after)
		f.wantClaimed(f.claimAll(hooks), copied)
	})

	it("noting no lane and noting one twice is fine", func(f *fixture) {
		f.configured()
		f.configured(hooks, hooks)
		f.accept()
		f.wantKilled(after)
	})
}

func (f *fixture) configured(lanes ...store.LaneID) {
	f.Helper()
	f.must(f.store.Configured(f.Context(), lanes))
}

func (f *fixture) orphans(after time.Duration, limit int) []event.Job {
	f.Helper()
	killed, err := f.store.Orphans(f.Context(), after, limit)
	f.must(err)
	return killed
}

func (f *fixture) wantKilled(after time.Duration, want ...event.ID) {
	f.Helper()
	got := idsOfJobs(f.orphans(after, 100))
	if !slices.Equal(got, want) {
		f.Fatalf("killed %v, want %v", got, want)
	}
}
