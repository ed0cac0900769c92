package storetest

import (
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

func finishSpecs(it specify) {
	it("delivered ends the job and keeps the row", func(f *fixture) {
		a := f.accept()
		fin := delivered(f.claimOne(hooks))
		f.store.Advance(time.Hour)
		f.finish(fin)
		j := f.job(a.Jobs[0].ID)
		if j.State != event.Delivered || j.Attempts != 1 || j.Failures != 0 || j.DeadReason != "" || j.LastError != "" {
			f.Fatalf("job is %+v", j)
		}
		f.wantAbout("time from creation to end", j.EndedAt.Sub(j.CreatedAt), time.Hour)
		f.wantRows(j.ID, fin.Row)
	})

	it("dead keeps reason and error", func(f *fixture) {
		a := f.accept()
		fin := dead(f.claimOne(hooks))
		fin.Reason = event.ReasonGone
		f.store.Advance(time.Hour)
		f.finish(fin)
		j := f.job(a.Jobs[0].ID)
		if j.State != event.Dead || j.Failures != 1 || j.DeadReason != event.ReasonGone || j.LastError != fin.Row.Error {
			f.Fatalf("job is %+v", j)
		}
		f.wantAbout("time from creation to end", j.EndedAt.Sub(j.CreatedAt), time.Hour)
		f.wantRows(j.ID, fin.Row)
	})

	it("pending tries again in RetryIn from now", func(f *fixture) {
		a := f.accept()
		fin := failed(f.claimOne(hooks), time.Hour)
		f.store.Advance(10 * time.Minute)
		f.finish(fin)
		j := f.job(a.Jobs[0].ID)
		if j.State != event.Pending || j.Failures != 1 || j.Attempts != 1 || !j.EndedAt.IsZero() || j.LastError != fin.Row.Error {
			f.Fatalf("job is %+v", j)
		}
		f.wantAbout("time from creation to the next attempt", j.RunAt.Sub(j.CreatedAt), 70*time.Minute)
		f.wantRows(j.ID, fin.Row)
	})

	it("the clock of the worker decides nothing", func(f *fixture) {
		for _, skewed := range []time.Time{time.UnixMilli(1).UTC(), time.Date(2199, 1, 1, 0, 0, 0, 0, time.UTC)} {
			a := f.accept()
			fin := failed(f.claimOne(hooks), 0)
			fin.Row.StartedAt = skewed
			f.finish(fin)
			f.wantRows(a.Jobs[0].ID, fin.Row)
			fin = delivered(f.claimOne(hooks))
			fin.Row.StartedAt = skewed
			f.finish(fin)
			j := f.job(a.Jobs[0].ID)
			f.wantAbout("time from creation to end", j.EndedAt.Sub(j.CreatedAt), 0)
		}
	})

	it("failures count and the newest error stays", func(f *fixture) {
		a := f.accept()
		var rows []event.Attempt
		for i, text := range []string{"one", "two", "three"} {
			fin := failed(f.claimOne(hooks), 0)
			fin.Row.Error = text
			f.finish(fin)
			rows = append(rows, fin.Row)
			if j := f.job(a.Jobs[0].ID); j.Failures != i+1 || j.Attempts != i+1 || j.LastError != text {
				f.Fatalf("after failure %d the job is %+v", i+1, j)
			}
		}
		fin := delivered(f.claimOne(hooks))
		f.finish(fin)
		if j := f.job(a.Jobs[0].ID); j.Failures != 3 || j.Attempts != 4 || j.LastError != "three" {
			f.Fatalf("after the delivery the job is %+v", j)
		}
		f.wantRows(a.Jobs[0].ID, append(rows, fin.Row)...)
	})

	it("an uncounted attempt is a row and no failure", func(f *fixture) {
		a := f.accept()
		f.finish(failed(f.claimOne(hooks), 0))
		fin := failed(f.claimOne(hooks), 0)
		fin.Uncounted, fin.Row.Class = true, event.ClassInterrupted
		f.finish(fin)
		if j := f.job(a.Jobs[0].ID); j.Failures != 1 || j.Attempts != 2 {
			f.Fatalf("failures %d, attempts %d; want 1, 2", j.Failures, j.Attempts)
		}
		f.wantLedger(a.Jobs[0].ID, event.ClassStatus, event.ClassInterrupted)
		if l := f.claimOne(hooks); l.Attempt != 3 {
			f.Fatalf("the next attempt has number %d, want 3", l.Attempt)
		}
	})

	it("ends its own job and no other of the event", func(f *fixture) {
		other := f.ownLane()
		a := f.accept(to(hooks, other))
		f.finish(dead(f.claimOne(hooks)))
		f.wantState(a.Jobs[1].ID, event.Pending)
		f.wantLedger(a.Jobs[1].ID)
	})

	outcomes := []struct {
		name string
		of   func(store.Lease) store.Finish
	}{
		{"delivered", delivered},
		{"dead", dead},
		{"pending at once", func(l store.Lease) store.Finish { return failed(l, 0) }},
		{"pending later", func(l store.Lease) store.Finish { return failed(l, time.Hour) }},
	}
	for _, o := range outcomes {
		it(o.name+" sent again gives the first answer and no second row", func(f *fixture) {
			a := f.accept()
			fin := o.of(f.claimOne(hooks))
			f.finish(fin)
			before := f.snapshot(a.Jobs[0].ID)
			f.store.Advance(10 * time.Minute)
			f.finish(fin)
			if diff := cmp.Diff(before, f.snapshot(a.Jobs[0].ID)); diff != "" {
				f.Fatalf("job (-after the first +after the second):\n%s", diff)
			}
		})
		for _, then := range outcomes {
			it(o.name+" is not changed to "+then.name+" by the same lease", func(f *fixture) {
				a := f.accept()
				l := f.claimOne(hooks)
				f.finish(o.of(l))
				before := f.snapshot(a.Jobs[0].ID)
				if _, err := f.store.Finish(f.Context(), then.of(l)); err != nil {
					f.Fatal(err)
				}
				if _, err := f.store.Release(f.Context(), l); err != nil {
					f.Fatal(err)
				}
				if diff := cmp.Diff(before, f.snapshot(a.Jobs[0].ID)); diff != "" {
					f.Fatalf("job (-after the first +after the second):\n%s", diff)
				}
			})
		}
	}

	it("sent again after the next claim leaves that alone", func(f *fixture) {
		a := f.accept()
		fin := failed(f.claimOne(hooks), 0)
		f.finish(fin)
		next := f.claimOne(hooks)
		if _, err := f.store.Finish(f.Context(), fin); err != nil {
			f.Fatal(err)
		}
		f.wantState(a.Jobs[0].ID, event.Running)
		f.finish(delivered(next))
		f.wantLedger(a.Jobs[0].ID, event.ClassStatus, event.ClassDelivered)
	})
}

// wantRows wants exactly these rows in the ledger of a job.
func (f *fixture) wantRows(id event.ID, want ...event.Attempt) {
	f.Helper()
	if diff := cmp.Diff(want, f.ledger(id)); diff != "" {
		f.Fatalf("ledger (-want +got):\n%s", diff)
	}
}
