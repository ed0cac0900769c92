package storetest

import (
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

func leaseSpecs(it specify) {
	const lease = 10 * time.Minute

	it("renewing counts from now", func(f *fixture) {
		f.accept()
		l := f.claimOneFor(lease, hooks)
		for range 3 {
			f.store.Advance(8 * time.Minute)
			f.renew(lease, l)
			f.wantRecovered(0)
		}
		f.store.Advance(8 * time.Minute)
		f.wantRecovered(0)
		f.finish(delivered(l))
	})

	it("a renewed lease runs out as well", func(f *fixture) {
		f.accept()
		l := f.claimOneFor(lease, hooks)
		f.renew(time.Hour, l)
		f.store.Advance(time.Hour + slack)
		f.wantRecovered(1)
	})

	it("renewing tells which leases are lost and renews the others", func(f *fixture) {
		kept, gone := f.ownLane(), f.ownLane()
		f.accept(to(kept, gone))
		a, b := f.claimOneFor(lease, kept), f.claimOneFor(lease, gone)
		f.finish(delivered(b))
		stranger := store.Lease{Job: newID(), Token: newID(), Attempt: 1}
		lost, err := f.store.Renew(f.Context(), []store.Lease{b, a, stranger}, time.Hour)
		f.must(err)
		if !slices.Contains(lost, b) || !slices.Contains(lost, stranger) || len(lost) != 2 {
			f.Fatalf("lost %v, want %v and %v", lost, b, stranger)
		}
		f.store.Advance(2 * lease)
		f.wantRecovered(0)
		f.finish(delivered(a))
	})

	it("many leases are renewed at once", func(f *fixture) {
		const many = 1100
		f.acceptMany(many)
		token, jobs := f.claim(lease, many, hooks)
		leases := make([]store.Lease, 0, many)
		for _, j := range jobs {
			leases = append(leases, leaseOf(token, j))
		}
		f.release(leases[many-1])
		lost, err := f.store.Renew(f.Context(), leases, time.Hour)
		f.must(err)
		if len(lost) != 1 || lost[0] != leases[many-1] {
			f.Fatalf("%d of %d leases are lost, want the last one, which was given back", len(lost), len(leases))
		}
		f.store.Advance(2 * lease)
		f.wantRecovered(0)
	})

	it("renewing nothing loses nothing", func(f *fixture) {
		f.renew(lease)
	})
}

// renew renews leases and wants none to be lost.
func (f *fixture) renew(d time.Duration, leases ...store.Lease) {
	f.Helper()
	lost, err := f.store.Renew(f.Context(), leases, d)
	f.must(err)
	if len(lost) != 0 {
		f.Fatalf("lost %v, want none", lost)
	}
}

// staleSpecs: whoever holds a lease no more is told that it is lost, and changes nothing.
func staleSpecs(it specify) {
	const lease = 10 * time.Minute
	transitions := []struct {
		name string
		do   func(f *fixture, l store.Lease) (lost bool, err error)
	}{
		{"delivered", finishWith(delivered)},
		{"to be tried again", finishWith(func(l store.Lease) store.Finish { return failed(l, 0) })},
		{"dead", finishWith(dead)},
		{"given back", func(f *fixture, l store.Lease) (bool, error) { return f.store.Release(f.Context(), l) }},
		{"renewed", func(f *fixture, l store.Lease) (bool, error) {
			lost, err := f.store.Renew(f.Context(), []store.Lease{l}, time.Hour)
			return len(lost) == 1 && lost[0] == l, err
		}},
	}
	holders := []struct {
		name  string
		stale func(f *fixture) store.Lease
		// not names the transition that made the lease stale: sent again, it gives its first answer.
		not string
	}{
		{name: "another token", stale: func(f *fixture) store.Lease {
			f.accept()
			l := f.claimOne(hooks)
			l.Token = newID()
			return l
		}},
		{name: "another attempt", stale: func(f *fixture) store.Lease {
			f.accept()
			l := f.claimOne(hooks)
			l.Attempt++
			return l
		}},
		{name: "a job that is not claimed", stale: func(f *fixture) store.Lease {
			return store.Lease{Job: f.accept().Jobs[0].ID, Token: newID(), Attempt: 1}
		}},
		{name: "an unknown job", stale: func(*fixture) store.Lease {
			return store.Lease{Job: newID(), Token: newID(), Attempt: 1}
		}},
		{name: "a life that was recovered", stale: func(f *fixture) store.Lease {
			f.accept()
			l := f.claimOneFor(lease, hooks)
			f.store.Advance(2 * lease)
			f.wantRecovered(1)
			return l
		}},
		{name: "a life that was recovered and another that began", stale: func(f *fixture) store.Lease {
			f.accept()
			l := f.claimOneFor(lease, hooks)
			f.store.Advance(2 * lease)
			f.wantRecovered(1)
			f.claimOne(hooks)
			return l
		}},
		{name: "a life that was given back", not: "given back", stale: func(f *fixture) store.Lease {
			f.accept()
			l := f.claimOne(hooks)
			f.release(l)
			return l
		}},
		{name: "a life that was given back and another that began", not: "given back", stale: func(f *fixture) store.Lease {
			f.accept()
			l := f.claimOne(hooks)
			f.release(l)
			f.claimOne(hooks)
			return l
		}},
		{name: "a life before a restart", stale: func(f *fixture) store.Lease {
			f.accept()
			l := f.claimOneFor(lease, hooks)
			f.restart()
			f.store.Advance(2 * lease)
			_, err := f.store.Recover(f.Context())
			f.must(err)
			return l
		}},
	}
	for _, h := range holders {
		for _, tr := range transitions {
			if tr.name == h.not {
				continue
			}
			it(h.name+", "+tr.name, func(f *fixture) {
				l := h.stale(f)
				before := f.snapshot(l.Job)
				lost, err := tr.do(f, l)
				f.must(err)
				if !lost {
					f.Fatal("the lease is not lost")
				}
				if diff := cmp.Diff(before, f.snapshot(l.Job)); diff != "" {
					f.Fatalf("a stale lease changed the job (-before +after):\n%s", diff)
				}
			})
		}
	}
}

func finishWith(outcome func(store.Lease) store.Finish) func(*fixture, store.Lease) (bool, error) {
	return func(f *fixture, l store.Lease) (bool, error) { return f.store.Finish(f.Context(), outcome(l)) }
}

func releaseSpecs(it specify) {
	it("gives the job back, due now, without a row and with its number", func(f *fixture) {
		a := f.accept()
		f.finish(failed(f.claimOne(hooks), 0))
		before := f.job(a.Jobs[0].ID)
		f.release(f.claimOne(hooks))
		after := f.job(a.Jobs[0].ID)
		f.wantAbout("delay", after.RunAt.Sub(before.RunAt), 0)
		after.RunAt = before.RunAt
		if diff := cmp.Diff(before, after); diff != "" {
			f.Fatalf("job (-before the claim +given back):\n%s", diff)
		}
		f.wantLedger(a.Jobs[0].ID, event.ClassStatus)
		if l := f.claimOne(hooks); l.Attempt != 2 {
			f.Fatalf("the next attempt has number %d, want 2 again", l.Attempt)
		}
	})

	it("sent again gives the first answer", func(f *fixture) {
		a := f.accept()
		l := f.claimOne(hooks)
		f.release(l)
		before := f.snapshot(a.Jobs[0].ID)
		f.release(l)
		if diff := cmp.Diff(before, f.snapshot(a.Jobs[0].ID)); diff != "" {
			f.Fatalf("job (-after the first +after the second):\n%s", diff)
		}
	})

	it("sent again after the next claim leaves that alone", func(f *fixture) {
		f.accept()
		l := f.claimOne(hooks)
		f.release(l)
		next := f.claimOne(hooks)
		if _, err := f.store.Release(f.Context(), l); err != nil {
			f.Fatal(err)
		}
		f.wantState(l.Job, event.Running)
		f.finish(delivered(next))
	})

	it("does not count as a lost life", func(f *fixture) {
		a := f.accept()
		for range store.MaxLost + 1 {
			f.release(f.claimOne(hooks))
		}
		if j := f.job(a.Jobs[0].ID); j.State != event.Pending || j.Lost != 0 || j.Failures != 0 || j.Attempts != 0 {
			f.Fatalf("job is %+v", j)
		}
	})
}

func (f *fixture) release(l store.Lease) {
	f.Helper()
	lost, err := f.store.Release(f.Context(), l)
	f.must(err)
	if lost {
		f.Fatalf("giving back attempt %d of %v: lost, want it to be ours", l.Attempt, l.Job)
	}
}
