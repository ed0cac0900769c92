package storetest

import (
	"time"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

func cancelSpecs(it specify) {
	it("ends a pending job for good", func(f *fixture) {
		a := f.accept()
		f.store.Advance(time.Hour)
		f.wantCancelled(a.Jobs[0].ID, true)
		j := f.job(a.Jobs[0].ID)
		if j.State != event.Cancelled || j.DeadReason != "" {
			f.Fatalf("job is %+v", j)
		}
		f.wantAbout("time from creation to end", j.EndedAt.Sub(j.CreatedAt), time.Hour)
		f.wantClaimed(f.claimAll(hooks))
		f.wantLedger(j.ID)
	})

	it("ends a job that waits for its next attempt", func(f *fixture) {
		a := f.later(time.Hour)
		f.wantCancelled(a.Jobs[0].ID, true)
		f.store.Advance(2 * time.Hour)
		f.wantClaimed(f.claimAll(hooks))
		f.wantLedger(a.Jobs[0].ID, event.ClassStatus)
	})

	it("leaves the other jobs of the event alone", func(f *fixture) {
		a := f.accept(to(hooks, hooks))
		f.wantCancelled(a.Jobs[0].ID, true)
		f.wantClaimed(f.claimAll(hooks), a.Jobs[1].ID)
	})

	for _, state := range event.States() {
		if state == event.Pending || state == event.Cancelled { // the second cancel may repeat the answer of the first
			continue
		}
		it("refuses a job that is "+state.String(), func(f *fixture) {
			a := f.jobIn(state)
			f.wantCancelled(a.Jobs[0].ID, false)
			f.wantState(a.Jobs[0].ID, state)
		})
	}

	it("a refused cancel does not disturb the life under way", func(f *fixture) {
		a := f.accept()
		l := f.claimOne(hooks)
		f.wantCancelled(a.Jobs[0].ID, false)
		f.finish(delivered(l))
	})

	it("does not know an unknown job", func(f *fixture) {
		_, err := f.store.Cancel(f.Context(), newID())
		f.wantErr(err, store.ErrNotFound)
		_, err = f.store.Cancel(f.Context(), f.accept().Event.ID)
		f.wantErr(err, store.ErrNotFound)
	})
}

func (f *fixture) wantCancelled(id event.ID, want bool) {
	f.Helper()
	got, err := f.store.Cancel(f.Context(), id)
	f.must(err)
	if got != want {
		f.Fatalf("cancelled is %v, want %v", got, want)
	}
}
