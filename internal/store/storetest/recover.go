package storetest

import (
	"slices"
	"time"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

func recoverSpecs(it specify) {
	const lease = 10 * time.Minute
	// lose ends a life of the only due job of hooks without an outcome.
	lose := func(f *fixture) store.Recovered {
		f.Helper()
		f.claimOneFor(lease, hooks)
		f.store.Advance(2 * lease)
		r, err := f.store.Recover(f.Context())
		f.must(err)
		return r
	}

	it("a lease ends at its time and not before", func(f *fixture) {
		f.accept()
		f.claimOneFor(lease, hooks)
		f.store.Advance(lease - slack)
		f.wantRecovered(0)
		f.store.Advance(slack)
		f.wantRecovered(1)
	})

	it("gives back a job whose lease ran out, with a row of class lost", func(f *fixture) {
		a := f.accept()
		f.finish(failed(f.claimOne(hooks), 0))
		l := f.claimOneFor(lease, hooks)
		claimed := f.job(l.Job)
		f.store.Advance(time.Hour)
		f.wantRecovered(1)
		j := f.job(a.Jobs[0].ID)
		if j.State != event.Pending || j.Attempts != 2 || j.Failures != 1 || j.Lost != 1 || !j.EndedAt.IsZero() {
			f.Fatalf("job is %+v", j)
		}
		f.wantAbout("time from creation to the next attempt", j.RunAt.Sub(claimed.CreatedAt), time.Hour)
		f.wantLedger(j.ID, event.ClassStatus, event.ClassLost)
		if lost := f.ledger(j.ID)[1]; lost.StartedAt.Before(j.CreatedAt) || lost.StartedAt.After(j.RunAt) {
			f.Fatalf("the lost life began at %v, want between %v and %v", lost.StartedAt, j.CreatedAt, j.RunAt)
		}
		if next := f.claimOne(hooks); next.Attempt != 3 {
			f.Fatalf("the next attempt has number %d, want 3", next.Attempt)
		}
	})

	it("finds nothing to do twice", func(f *fixture) {
		f.accept()
		lose(f)
		f.wantRecovered(0)
	})

	it("counts every job it gives back", func(f *fixture) {
		for range 7 {
			f.accept()
		}
		f.claim(lease, 5, hooks)
		f.store.Advance(2 * lease)
		f.wantRecovered(5)
		if n := len(f.claimAll(hooks)); n != 7 {
			f.Fatalf("%d jobs are due, want 7", n)
		}
	})

	it("ends a job that loses too many lives in a row", func(f *fixture) {
		a := f.accept()
		for range store.MaxLost - 1 {
			if r := lose(f); len(r.Returned) != 1 || len(r.Dead) != 0 {
				f.Fatalf("recovered %+v, want one job given back", r)
			}
		}
		r := lose(f)
		if len(r.Returned) != 0 || len(r.Dead) != 1 || r.Dead[0].ID != a.Jobs[0].ID {
			f.Fatalf("recovered %+v, want the job to be dead", r)
		}
		for _, j := range []event.Job{r.Dead[0], f.job(a.Jobs[0].ID)} {
			if j.State != event.Dead || j.DeadReason != event.ReasonCrashLoop || j.Failures != 0 || j.Attempts != store.MaxLost ||
				j.EndedAt.IsZero() || j.Endpoint != hooks.Endpoint || j.Source != "github" {
				f.Fatalf("job is %+v", j)
			}
		}
		f.wantLedger(a.Jobs[0].ID, slices.Repeat([]event.Class{event.ClassLost}, store.MaxLost)...)
		f.wantClaimed(f.claimAll(hooks))
	})

	it("counts lost lives in a row only", func(f *fixture) {
		a := f.accept()
		for range store.MaxLost - 1 {
			lose(f)
		}
		f.finish(failed(f.claimOne(hooks), 0))
		if j := f.job(a.Jobs[0].ID); j.Lost != 0 || j.Failures != 1 {
			f.Fatalf("lost %d, failures %d; want 0, 1", j.Lost, j.Failures)
		}
		for range store.MaxLost - 1 {
			lose(f)
		}
		if j := f.job(a.Jobs[0].ID); j.State != event.Pending || j.Lost != store.MaxLost-1 {
			f.Fatalf("job is %+v", j)
		}
	})

	it("a life given back keeps the count of lost ones", func(f *fixture) {
		a := f.accept()
		lose(f)
		f.release(f.claimOne(hooks))
		if j := f.job(a.Jobs[0].ID); j.Lost != 1 || j.Attempts != 1 {
			f.Fatalf("lost %d, attempts %d; want 1, 1", j.Lost, j.Attempts)
		}
		if l := f.claimOne(hooks); l.Attempt != 2 {
			f.Fatalf("the next attempt has number %d, want 2", l.Attempt)
		}
	})

	it("an outcome that comes with the end of the lease holds or is lost, never both", func(f *fixture) {
		a := f.accept()
		l := f.claimOneFor(lease, hooks)
		f.store.Advance(2 * lease)
		lost, err := f.store.Finish(f.Context(), delivered(l))
		f.must(err)
		if lost {
			f.wantRecovered(1)
			f.wantState(a.Jobs[0].ID, event.Pending)
			f.wantLedger(a.Jobs[0].ID, event.ClassLost)
			return
		}
		f.wantRecovered(0)
		f.wantState(a.Jobs[0].ID, event.Delivered)
		f.wantLedger(a.Jobs[0].ID, event.ClassDelivered)
	})

	ends := []struct {
		name string
		end  func(f *fixture)
	}{
		{"a restart", (*fixture).restart},
		{"a crash", (*fixture).crash},
	}
	for _, e := range ends {
		// A store of one process knows at once that nobody holds the leases; one of several waits for their end.
		it("a life that "+e.name+" cut short is lost and the job comes back", func(f *fixture) {
			running, waiting := f.ownLane(), f.ownLane()
			a := f.accept(to(running))
			b := f.laterIn(waiting, time.Hour)
			l := f.claimOneFor(lease, running)
			e.end(f)
			f.store.Advance(2 * lease)
			if _, err := f.store.Recover(f.Context()); err != nil {
				f.Fatal(err)
			}
			if j := f.job(a.Jobs[0].ID); j.State != event.Pending || j.Attempts != 1 || j.Lost != 1 || j.Failures != 0 {
				f.Fatalf("job is %+v", j)
			}
			f.wantLedger(a.Jobs[0].ID, event.ClassLost)
			lost, err := f.store.Finish(f.Context(), delivered(l))
			f.must(err)
			if !lost {
				f.Fatal("the lease of the life before is still good")
			}
			if next := f.claimOne(running); next.Attempt != 2 {
				f.Fatalf("the next attempt has number %d, want 2", next.Attempt)
			}
			f.wantClaimed(f.claimAll(waiting))
			f.wantLedger(b.Jobs[0].ID, event.ClassStatus)
		})

		it("lives lost by "+e.name+" each count until the job is dead", func(f *fixture) {
			a := f.accept()
			for life := 1; life <= store.MaxLost; life++ {
				f.claimOneFor(time.Millisecond, hooks)
				e.end(f)
				r := f.recoverSoon(a.Jobs[0].ID)
				if dead := life == store.MaxLost; len(r.Returned)+len(r.Dead) != 1 || len(r.Dead) == 1 != dead {
					f.Fatalf("after life %d recovering reported %+v", life, r)
				}
			}
			if j := f.job(a.Jobs[0].ID); j.State != event.Dead || j.DeadReason != event.ReasonCrashLoop {
				f.Fatalf("job is %+v", j)
			}
		})
	}
}

// recoverSoon recovers until the short lease of a job has run out by itself, because a restart may forget how far the
// clock was moved, and then jobs are due in the future. It returns all that was reported.
func (f *fixture) recoverSoon(id event.ID) (all store.Recovered) {
	f.Helper()
	for deadline := time.Now().Add(slack); ; {
		r, err := f.store.Recover(f.Context())
		f.must(err)
		all.Returned = append(all.Returned, r.Returned...)
		all.Dead = append(all.Dead, r.Dead...)
		if f.job(id).State != event.Running {
			return all
		}
		if time.Now().After(deadline) {
			f.Fatal("a lease of a millisecond does not run out")
		}
	}
}

func (f *fixture) wantRecovered(want int) {
	f.Helper()
	r, err := f.store.Recover(f.Context())
	f.must(err)
	if len(r.Returned) != want || len(r.Dead) != 0 {
		f.Fatalf("recovered %d and %d dead, want %d and 0", len(r.Returned), len(r.Dead), want)
	}
}
