package storetest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

func concurrencySpecs(it specify) {
	it("of sixty copies at once one is stored and all get its ids", func(f *fixture) {
		f.wantOneStored(60, func(int) store.Accept {
			return webhook(keyed(time.Hour, key(1)), to(hooks, store.LaneID{Queue: "slow", Endpoint: "github/ci"}))
		})
	})

	it("of copies that share only one of their keys one is stored", func(f *fixture) {
		f.wantOneStored(60, func(i int) store.Accept {
			return webhook(keyed(time.Hour, key(100+i), key(1), key(200+i)))
		})
	})

	it("of one accept sent many times at once one is stored and none is a duplicate", func(f *fixture) {
		a := webhook(keyed(time.Hour, key(1)), to(hooks, hooks))
		want := store.Accepted{EventID: a.Event.ID, JobIDs: jobIDs(a)}
		f.parallel(30, func(int) error {
			got, err := f.store.Accept(f.Context(), a)
			if diff := cmp.Diff(want, got); err == nil && diff != "" {
				err = fmt.Errorf("answer (-want +got):\n%s", diff)
			}
			return err
		})
		f.wantClaimed(f.claimAll(hooks), jobIDs(a)...)
	})

	it("different events at once are all stored", func(f *fixture) {
		all := make([]store.Accept, 300)
		f.parallel(30, func(w int) error {
			for i := w; i < len(all); i += 30 {
				all[i] = webhook(keyed(time.Hour, key(i)))
				got, err := f.store.Accept(f.Context(), all[i])
				if err != nil {
					return err
				}
				if got.Duplicate || got.EventID != all[i].Event.ID {
					return fmt.Errorf("answer %+v to a new event", got)
				}
			}
			return nil
		})
		var want []event.ID
		for _, a := range all {
			want = append(want, a.Event.ID)
		}
		f.wantSame(want, idsOfEvents(f.allEvents(store.EventFilter{Limit: 100})))
		if n := len(f.claimAll(hooks)); n != len(all) {
			f.Fatalf("%d jobs are due, want %d", n, len(all))
		}
	})

	it("sequences are never given twice", func(f *fixture) {
		f.acceptMany(200)
		seen := map[int64]bool{}
		for _, e := range f.allEvents(store.EventFilter{Limit: 100}) {
			if seen[e.Seq] {
				f.Fatalf("sequence %d stands twice", e.Seq)
			}
			seen[e.Seq] = true
		}
		if len(seen) != 200 {
			f.Fatalf("%d events are listed, want 200", len(seen))
		}
	})

	it("a full backlog holds against a crowd", func(f *fixture) {
		var mu sync.Mutex
		var stored []event.ID
		f.parallel(60, func(int) error {
			a := webhook(limited(10))
			_, err := f.store.Accept(f.Context(), a)
			if errors.Is(err, store.ErrBacklog) {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			stored = append(stored, a.Jobs[0].ID)
			return err
		})
		if len(stored) != 10 {
			f.Fatalf("%d were accepted, the limit is 10", len(stored))
		}
		f.wantSame(stored, idsOfJobs(f.allJobs(store.JobFilter{Limit: 100})))
	})

	it("many claims at once never take a job twice", func(f *fixture) {
		const jobs = 300
		f.acceptMany(jobs)
		var mu sync.Mutex
		taken := map[event.ID]int{}
		f.parallel(20, func(int) error {
			for {
				got, err := f.store.Claim(f.Context(), claimOf(5, hooks))
				if err != nil || len(got.Jobs) == 0 {
					return err
				}
				mu.Lock()
				for _, j := range got.Jobs {
					taken[j.Job.ID]++
				}
				mu.Unlock()
			}
		})
		if len(taken) != jobs {
			f.Fatalf("%d jobs were claimed, want %d", len(taken), jobs)
		}
		for id, n := range taken {
			if n != 1 {
				f.Fatalf("job %v was claimed %d times", id, n)
			}
		}
	})

	it("one claim sent many times at once takes jobs once", func(f *fixture) {
		const most, senders = 3, 10
		byID := cmpopts.SortSlices(func(a, b store.ClaimedJob) bool { return lessID(a.Job.ID, b.Job.ID) })
		f.acceptMany(60)
		for left := 60; left > most*senders; left -= most {
			c := claimOf(most, hooks)
			answers := make([]store.Claimed, senders)
			f.crowd(senders, func(i int) (err error) {
				answers[i], err = f.store.Claim(f.Context(), c)
				return err
			})
			for _, a := range answers {
				diff := cmp.Diff(answers[0].Jobs, a.Jobs, byID, cmpopts.IgnoreFields(event.Job{}, "RunAt"))
				if diff != "" || len(a.Jobs) != most {
					f.Fatalf("%d jobs, want the %d of another answer; they differ by:\n%s", len(a.Jobs), most, diff)
				}
			}
		}
	})

	it("lanes noted from several sides at once are all noted", func(f *fixture) {
		lanes := make([]store.LaneID, 20)
		for i := range lanes {
			lanes[i] = f.ownLane()
			f.accept(to(lanes[i]))
		}
		f.store.Advance(25 * time.Hour)
		f.crowd(len(lanes), func(i int) error { return f.store.Configured(f.Context(), lanes[i:i+1]) })
		f.wantKilled(24 * time.Hour)
	})

	it("accepts, claims and outcomes at once lose nothing", func(f *fixture) {
		const jobs = 200
		var done sync.Map
		f.parallel(8, func(w int) error {
			if w < 4 {
				for range jobs / 4 {
					if _, err := f.store.Accept(f.Context(), webhook()); err != nil {
						return err
					}
				}
				return nil
			}
			for n := 0; n < jobs/4; {
				c := claimOf(3, hooks)
				c.Lanes[0].Max = min(3, jobs/4-n)
				got, err := f.store.Claim(f.Context(), c)
				if err != nil {
					return err
				}
				for _, j := range got.Jobs {
					lost, err := f.store.Finish(f.Context(), delivered(leaseOf(c.Token, j)))
					if _, twice := done.LoadOrStore(j.Job.ID, true); err != nil || lost || twice {
						return fmt.Errorf("job %v: lost %v, twice %v, error %w", j.Job.ID, lost, twice, err)
					}
				}
				n += len(got.Jobs)
			}
			return nil
		})
		f.wantStats(map[store.LaneID]counts{hooks: {event.Delivered: jobs}})
	})
}

// wantOneStored accepts n webhooks at once and wants one of them stored and all answered with its ids.
func (f *fixture) wantOneStored(n int, copyOf func(i int) store.Accept) {
	f.Helper()
	sent, answers := make([]store.Accept, n), make([]store.Accepted, n)
	for i := range n {
		sent[i] = copyOf(i)
	}
	f.parallel(n, func(i int) (err error) {
		answers[i], err = f.store.Accept(f.Context(), sent[i])
		return err
	})
	var first *store.Accept
	for i, a := range answers {
		if !a.Duplicate {
			if first != nil {
				f.Fatal("two were answered as the first")
			}
			first = &sent[i]
		}
	}
	if first == nil {
		f.Fatal("all were answered as duplicates")
	}
	for i, got := range answers {
		want := store.Accepted{EventID: first.Event.ID, JobIDs: jobIDs(*first), Duplicate: sent[i].Event.ID != first.Event.ID}
		if diff := cmp.Diff(want, got); diff != "" {
			f.Fatalf("answer (-want +got):\n%s", diff)
		}
	}
	f.wantSame([]event.ID{first.Event.ID}, idsOfEvents(f.allEvents(store.EventFilter{Limit: 10})))
	f.wantSame(jobIDs(*first), idsOfJobs(f.allJobs(store.JobFilter{Limit: 10})))
}
