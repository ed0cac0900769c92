package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

func raceSpecs(it specify) {
	const jobs = 40

	it("a job is claimed or cancelled, never both", func(f *fixture) {
		ids := make([]event.ID, jobs)
		for i := range ids {
			ids[i] = f.accept().Jobs[0].ID
		}
		cancelled := map[event.ID]bool{}
		var claimed []store.ClaimedJob
		f.crowd(2, func(w int) error {
			for i := range ids {
				if w == 0 {
					ok, err := f.store.Cancel(f.Context(), ids[len(ids)-1-i])
					if err != nil {
						return err
					}
					cancelled[ids[len(ids)-1-i]] = ok
					continue
				}
				got, err := f.store.Claim(f.Context(), claimOf(1, hooks))
				if err != nil {
					return err
				}
				claimed = append(claimed, got.Jobs...)
			}
			return nil
		})
		n := len(claimed)
		for _, c := range claimed {
			if cancelled[c.Job.ID] {
				f.Fatalf("job %v was cancelled and claimed", c.Job.ID)
			}
		}
		for _, id := range ids {
			if cancelled[id] {
				n++
				f.wantState(id, event.Cancelled)
			}
		}
		if n != jobs {
			f.Fatalf("%d jobs were claimed or cancelled, want %d", n, jobs)
		}
	})

	it("a life ends by its outcome or by recovery, never by both", func(f *fixture) {
		f.acceptMany(jobs)
		token, claimed := f.claim(10*time.Minute, jobs, hooks)
		f.store.Advance(time.Hour)
		lost := make([]bool, jobs)
		f.crowd(5, func(w int) (err error) {
			for i := w; i < jobs && err == nil; i++ {
				if w == 4 {
					_, err = f.store.Recover(f.Context())
				} else if i%4 == w {
					lost[i], err = f.store.Finish(f.Context(), delivered(leaseOf(token, claimed[i])))
				}
			}
			return err
		})
		for i, c := range claimed {
			state, class := event.Delivered, event.ClassDelivered
			if lost[i] {
				state, class = event.Pending, event.ClassLost
			}
			f.wantState(c.Job.ID, state)
			f.wantLedger(c.Job.ID, class)
		}
	})

	it("a job that ends one life and begins the next in the same moment is not stuck", func(f *fixture) {
		const few = 4 // so that claims fight for what was given back just now
		f.acceptMany(few)
		f.crowd(10, func(w int) error {
			for round := range 40 {
				c := claimOf(1, hooks)
				got, err := f.store.Claim(f.Context(), c)
				if err != nil {
					return err
				}
				for i, j := range got.Jobs {
					l := leaseOf(c.Token, j)
					if (w+round+i)%2 == 0 {
						err = wantKept(f.store.Release(f.Context(), l))
					} else {
						err = wantKept(f.store.Finish(f.Context(), failed(l, 0)))
					}
					if err != nil {
						return err
					}
				}
			}
			return nil
		})
		if n := len(f.claimAll(hooks)); n != few {
			f.Fatalf("%d jobs are due, want %d", n, few)
		}
	})

	it("a lease is renewed or recovered, never both", func(f *fixture) {
		for range 8 {
			f.acceptMany(jobs)
			token, claimed := f.claim(10*time.Minute, jobs, hooks)
			f.store.Advance(time.Hour)
			renewed, kept := make([]bool, jobs), make([]bool, jobs)
			f.crowd(jobs+5, func(i int) error {
				if i >= jobs {
					_, err := f.store.Recover(f.Context())
					return err
				}
				lost, err := f.store.Renew(f.Context(), []store.Lease{leaseOf(token, claimed[i])}, 10*time.Minute)
				renewed[i] = len(lost) == 0
				return err
			})
			for i, c := range claimed {
				lost, err := f.store.Finish(f.Context(), delivered(leaseOf(token, c)))
				f.must(err)
				kept[i] = !lost
			}
			if diff := cmp.Diff(renewed, kept); diff != "" {
				f.Fatalf("leases (-renewed +ours at the end):\n%s", diff)
			}
			token, claimed = f.claim(time.Hour, jobs, hooks) // those that were recovered
			for _, c := range claimed {
				f.finish(delivered(leaseOf(token, c)))
			}
		}
	})

	it("one outcome sent many times at once is one row and never lost", func(f *fixture) {
		a := f.accept()
		fin := failed(f.claimOne(hooks), time.Hour)
		f.crowd(20, func(int) error { return wantKept(f.store.Finish(f.Context(), fin)) })
		f.wantLedger(a.Jobs[0].ID, event.ClassStatus)
		if j := f.job(a.Jobs[0].ID); j.Failures != 1 {
			f.Fatalf("failures %d, want 1", j.Failures)
		}
	})

	it("of two replays at once one makes a copy", func(f *fixture) {
		a := f.jobIn(event.Dead)
		made := make([]bool, 20)
		f.crowd(len(made), func(i int) error {
			got, err := f.store.Replay(f.Context(), a.Jobs[0].ID, newID(), false)
			made[i] = got.Replayed
			return err
		})
		n := 0
		for _, m := range made {
			if m {
				n++
			}
		}
		if _, all := f.event(a.Event.ID); n != 1 || len(all) != 2 {
			f.Fatalf("%d copies were answered, the event has %d jobs; want 1 and 2", n, len(all))
		}
	})

	it("one replay sent many times at once makes one copy", func(f *fixture) {
		a := f.jobIn(event.Dead)
		id := newID()
		f.crowd(20, func(int) error {
			got, err := f.store.Replay(f.Context(), a.Jobs[0].ID, id, false)
			if err == nil && !got.Replayed {
				err = fmt.Errorf("refused in state %v", got.State)
			}
			return err
		})
		f.wantClaimed(f.claimAll(laneOf(a)), id)
	})

	it("pruning at once with duplicates never lets one in", func(f *fixture) {
		var firsts []store.Accept
		for i := range jobs {
			firsts = append(firsts, f.accept(keyed(longTTL, key(i))))
		}
		token, claimed := f.claim(time.Hour, jobs, hooks)
		for _, c := range claimed {
			f.finish(delivered(leaseOf(token, c)))
		}
		f.store.Advance(2 * time.Hour)
		f.crowd(4, func(w int) error {
			for i, first := range firsts {
				if w == 0 {
					if _, err := f.store.Prune(f.Context(), keepFor(time.Hour)); err != nil {
						return err
					}
					continue
				}
				got, err := f.store.Accept(f.Context(), webhook(keyed(longTTL, key(i))))
				if err != nil || !got.Duplicate || got.EventID != first.Event.ID {
					return fmt.Errorf("copy of event %v: answer %+v, error %w", first.Event.ID, got, err)
				}
			}
			return nil
		})
	})

	it("closing under load loses no acknowledged event", func(f *fixture) {
		acked := f.load(func() { f.must(f.store.Close()) }, func(err error) bool { return errors.Is(err, store.ErrClosed) })
		f.store = f.h.Open(f.TB)
		f.wantWhole(acked)
	})

	it("a crash under load loses no acknowledged event and leaves none half stored", func(f *fixture) {
		f.needCrash()
		acked := f.load(f.abandon, func(error) bool { return true })
		f.store = f.h.Open(f.TB)
		f.wantWhole(acked)
	})
}

func wantKept(lost bool, err error) error {
	if err == nil && lost {
		err = errors.New("lost, want it to be ours")
	}
	return err
}

// load accepts events from many sides, ends the store amid that, and gives what was sent and whether it was acknowledged.
func (f *fixture) load(end func(), endErr func(error) bool) map[event.ID]sentAccept {
	f.Helper()
	ctx, cancel := context.WithCancel(f.Context())
	defer cancel()
	const senders, before = 16, 100
	s, results, enough := f.store, make(chan sentAccept), make(chan struct{})
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for ctx.Err() == nil {
				a := webhook(keyed(time.Hour, newKey()), to(hooks, hooks))
				_, err := s.Accept(ctx, a)
				results <- sentAccept{a, err}
				if err != nil {
					return
				}
			}
		})
	}
	all, acks := map[event.ID]sentAccept{}, 0
	collected := make(chan struct{})
	go func() {
		defer close(collected)
		for r := range results {
			all[r.Event.ID] = r
			if r.err == nil {
				if acks++; acks == before {
					close(enough)
				}
			}
		}
	}()
	<-enough
	end()
	cancel()
	wg.Wait()
	close(results)
	<-collected
	for _, r := range all {
		if r.err != nil && !endErr(r.err) && !errors.Is(r.err, context.Canceled) {
			f.Fatalf("accepting while the store ends: %v", r.err)
		}
	}
	return all
}

type sentAccept struct {
	store.Accept
	err error
}

// wantWhole wants every acknowledged event with its jobs, and of the others all or nothing.
func (f *fixture) wantWhole(sent map[event.ID]sentAccept) {
	f.Helper()
	for _, a := range sent {
		_, jobs, err := f.store.Event(f.Context(), a.Event.ID)
		if a.err != nil && errors.Is(err, store.ErrNotFound) {
			f.wantNothingOf(a.Accept)
			f.wantFirst(a.Accept) // its key is free as well
			continue
		}
		f.must(err)
		f.wantSame(jobIDs(a.Accept), idsOfJobs(jobs))
		again := webhook(func(b *store.Accept) { b.Keys = a.Keys })
		f.wantDuplicate(again, a.Accept)
	}
}
