package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

func claimSpecs(it specify) {
	it("gives a job with its event and the number of the attempt", func(f *fixture) {
		a := f.accept(from("github", "acme"), keyed(time.Hour, key(1)), payload([]byte("bytes")))
		before := f.job(a.Jobs[0].ID)
		jobs := f.claimAll(hooks)
		f.wantClaimed(jobs, a.Jobs[0].ID)
		before.State, before.Attempts = event.Running, 1
		if diff := cmp.Diff(before, jobs[0].Job, cmpopts.IgnoreFields(event.Job{}, "RunAt")); diff != "" {
			f.Fatalf("job (-want +claimed):\n%s", diff)
		}
		want, _ := f.event(a.Event.ID)
		if diff := cmp.Diff(want, jobs[0].Event, cmpopts.IgnoreFields(event.Event{}, "Keys")); diff != "" {
			f.Fatalf("event (-kept +claimed):\n%s", diff)
		}
		f.wantState(a.Jobs[0].ID, event.Running)
	})

	it("numbers the attempts of a job from 1", func(f *fixture) {
		f.accept()
		for want := 1; want <= 4; want++ {
			l := f.claimOne(hooks)
			if l.Attempt != want {
				f.Fatalf("attempt has number %d, want %d", l.Attempt, want)
			}
			f.finish(failed(l, 0))
		}
	})

	it("takes jobs of the asked lanes only", func(f *fixture) {
		a := f.accept()
		for _, other := range []store.LaneID{
			{Queue: "slow", Endpoint: hooks.Endpoint},
			{Queue: hooks.Queue, Endpoint: "github/defaul"},
			{Queue: hooks.Queue, Endpoint: "github/default2"},
			{Queue: hooks.Queue, Endpoint: "GitHub/default"},
			{Queue: "web", Endpoint: "hooksgithub/default"},
			{Queue: "", Endpoint: ""},
		} {
			f.wantClaimed(f.claimAll(other))
		}
		f.wantClaimed(f.claimAll(hooks), a.Jobs[0].ID)
	})

	it("without lanes takes nothing", func(f *fixture) {
		f.accept()
		f.wantClaimed(f.claimAll())
	})

	it("takes at most Max of each lane", func(f *fixture) {
		other := f.ownLane()
		for range 5 {
			f.accept(to(hooks, other))
		}
		c := store.Claim{Token: newID(), Lease: time.Hour, Lanes: []store.Lane{{LaneID: hooks, Max: 2}, {LaneID: other, Max: 3}}}
		got, err := f.store.Claim(f.Context(), c)
		f.must(err)
		counts := map[string]int{}
		for _, j := range got.Jobs {
			counts[j.Job.Endpoint]++
		}
		if counts[hooks.Endpoint] != 2 || counts[other.Endpoint] != 3 {
			f.Fatalf("claimed %v, want 2 and 3", counts)
		}
	})

	it("takes from three hundred lanes at once", func(f *fixture) {
		lanes := make([]store.LaneID, 300)
		for i := range lanes {
			lanes[i] = f.ownLane()
		}
		a := f.accept(to(lanes...))
		var got []event.ID
		for _, j := range f.claimAll(lanes...) {
			got = append(got, j.Job.ID)
		}
		if diff := cmp.Diff(jobIDs(a), got, cmpopts.SortSlices(lessID)); diff != "" {
			f.Fatalf("jobs (-accepted +claimed):\n%s", diff)
		}
	})

	it("takes all jobs of one event, each with the payload", func(f *fixture) {
		a := f.accept(to(hooks, hooks, hooks), payload([]byte("shared")))
		jobs := f.claimAll(hooks)
		f.wantClaimed(jobs, jobIDs(a)...)
		for _, j := range jobs {
			if string(j.Event.Payload) != "shared" {
				f.Fatalf("payload is %q", j.Event.Payload)
			}
		}
	})

	for _, state := range event.States() {
		if state == event.Pending || state == event.Replayed {
			continue
		}
		it(fmt.Sprintf("never takes a job that is %v", state), func(f *fixture) {
			a := f.jobIn(state)
			f.store.Advance(10 * time.Minute)
			f.wantClaimed(f.claimAll(laneOf(a)))
		})
	}

	it("of a replayed job takes only the copy", func(f *fixture) {
		a := f.jobIn(event.Dead)
		copied := f.replay(a.Jobs[0].ID)
		f.wantClaimed(f.claimAll(laneOf(a)), copied)
	})

	it("sent again with its token gives the same jobs and no others", func(f *fixture) {
		for range 3 {
			f.accept()
		}
		c := claimOf(2, hooks)
		first, err := f.store.Claim(f.Context(), c)
		f.must(err)
		f.accept()
		again, err := f.store.Claim(f.Context(), c)
		f.must(err)
		byID := cmpopts.SortSlices(func(a, b store.ClaimedJob) bool { return lessID(a.Job.ID, b.Job.ID) })
		if diff := cmp.Diff(first.Jobs, again.Jobs, byID, cmpopts.IgnoreFields(event.Job{}, "RunAt")); diff != "" {
			f.Fatalf("jobs (-first +again):\n%s", diff)
		}
		if len(f.claimAll(hooks)) != 2 {
			f.Fatal("the jobs beyond Max were not left to others")
		}
		for _, j := range first.Jobs {
			f.finish(delivered(leaseOf(c.Token, j)))
		}
	})

	it("sent again behind another claim gives the same jobs", func(f *fixture) {
		a := f.accept()
		c := claimOf(1, hooks)
		_, err := f.store.Claim(f.Context(), c)
		f.must(err)
		f.accept()
		f.claimOne(hooks)
		again, err := f.store.Claim(f.Context(), c)
		f.must(err)
		f.wantClaimed(again.Jobs, a.Jobs[0].ID)
	})

	it("sent again with its token begins the leases anew", func(f *fixture) {
		f.accept()
		f.accept()
		c := claimOf(2, hooks)
		c.Lease = 10 * time.Minute
		first, err := f.store.Claim(f.Context(), c)
		f.must(err)
		f.finish(delivered(leaseOf(c.Token, first.Jobs[1])))
		f.store.Advance(8 * time.Minute)
		again, err := f.store.Claim(f.Context(), c)
		f.must(err)
		if len(again.Jobs) != 1 || again.Jobs[0].Job.ID != first.Jobs[0].Job.ID {
			f.Fatalf("claimed again: %d jobs, want the one that is not finished", len(again.Jobs))
		}
		f.store.Advance(8 * time.Minute)
		f.wantRecovered(0)
		f.store.Advance(2 * time.Minute)
		f.wantRecovered(1)
	})

	it("sent again after its lease was recovered takes nothing from the next holder", func(f *fixture) {
		f.accept()
		c := claimOf(1, hooks)
		c.Lease = time.Minute
		_, err := f.store.Claim(f.Context(), c)
		f.must(err)
		f.store.Advance(61 * time.Second)
		f.wantRecovered(1)
		token, next := f.claim(time.Hour, 1, hooks)
		again, err := f.store.Claim(f.Context(), c)
		f.must(err)
		if len(again.Jobs) != 0 {
			f.Fatal("the job was given to two at once")
		}
		f.finish(delivered(leaseOf(token, next[0])))
	})
}

func lessID(a, b event.ID) bool { return slices.Compare(a[:], b[:]) < 0 }

func claimOrderSpecs(it specify) {
	it("takes jobs in the order in which they were accepted", func(f *fixture) {
		var want []event.ID
		for range 10 {
			want = append(want, f.accept().Jobs[0].ID)
		}
		f.wantClaimed(f.claimAll(hooks), want...)
	})

	it("does not take the order from the ids", func(f *fixture) {
		late, early := webhook(), webhook() // made the other way round
		f.wantFirst(early)
		f.store.Advance(time.Second)
		f.wantFirst(late)
		f.wantClaimed(f.claimAll(hooks), early.Jobs[0].ID, late.Jobs[0].ID)
	})

	it("takes jobs in the order in which they became due", func(f *fixture) {
		a, b, c := f.accept(), f.accept(), f.accept()
		token, jobs := f.claim(time.Hour, 10, hooks)
		for i, in := range []time.Duration{3 * time.Hour, time.Hour, 2 * time.Hour} {
			f.finish(failed(leaseOf(token, jobs[i]), in))
		}
		f.store.Advance(90 * time.Minute)
		d := f.accept()
		f.store.Advance(2 * time.Hour)
		f.wantClaimed(f.claimAll(hooks), b.Jobs[0].ID, d.Jobs[0].ID, c.Jobs[0].ID, a.Jobs[0].ID)
	})

	it("the oldest are taken first when Max is small", func(f *fixture) {
		var want []event.ID
		for range 6 {
			want = append(want, f.accept().Jobs[0].ID)
		}
		for len(want) > 0 {
			_, jobs := f.claim(time.Hour, 2, hooks)
			f.wantClaimed(jobs, want[:2]...)
			want = want[2:]
		}
	})

	cases := []struct {
		name  string
		setup func(f *fixture)
		most  int
		took  int
		next  time.Duration
		more  bool
	}{
		{"an empty lane", func(*fixture) {}, 10, 0, 0, false},
		{"a lane that had just enough", func(f *fixture) { f.accept(to(hooks, hooks)) }, 2, 2, 0, false},
		{"a lane that had more", func(f *fixture) { f.accept(to(hooks, hooks, hooks)) }, 2, 2, 0, true},
		{"a lane without room", func(f *fixture) { f.accept() }, 0, 0, 0, true},
		{"a job that is due later", func(f *fixture) { f.later(3 * time.Hour) }, 10, 0, 3 * time.Hour, false},
		{"two jobs that are due later", func(f *fixture) { f.later(3 * time.Hour); f.later(2 * time.Hour) }, 10, 0, 2 * time.Hour, false},
		{"a job due now and one later", func(f *fixture) { f.later(3 * time.Hour); f.accept() }, 10, 1, 3 * time.Hour, false},
		{"jobs left now and one later", func(f *fixture) { f.later(3 * time.Hour); f.accept(to(hooks, hooks)) }, 1, 1, 0, true},
		{"only a job in another lane", func(f *fixture) { f.accept(to(f.ownLane())) }, 10, 0, 0, false},
		{"only a job in another lane, later", func(f *fixture) { f.laterIn(f.ownLane(), time.Hour) }, 10, 0, 0, false},
		{"only a running job", func(f *fixture) { f.accept(); f.claimOne(hooks) }, 10, 0, 0, false},
	}
	for _, c := range cases {
		it("tells what is left after "+c.name, func(f *fixture) {
			c.setup(f)
			got, err := f.store.Claim(f.Context(), claimOf(c.most, hooks))
			f.must(err)
			if len(got.Jobs) != c.took || got.More != c.more {
				f.Fatalf("claimed %d, more %v; want %d, %v", len(got.Jobs), got.More, c.took, c.more)
			}
			switch {
			case c.more && got.Next <= time.Millisecond: // now
			case c.next == 0 && got.Next == 0: // only a wake can bring more
			case c.next > 0 && got.Next <= c.next && got.Next > c.next-slack:
			default:
				f.Fatalf("next in %v, want %v", got.Next, c.next)
			}
		})
	}

	it("the earliest job of all asked lanes decides what is next", func(f *fixture) {
		lanes := []store.LaneID{f.ownLane(), f.ownLane(), f.ownLane()}
		for i, in := range []time.Duration{3 * time.Hour, time.Hour, 2 * time.Hour} {
			f.laterIn(lanes[i], in)
		}
		got, err := f.store.Claim(f.Context(), claimOf(1, lanes...))
		f.must(err)
		f.wantAbout("next", got.Next, time.Hour)
		if got.More {
			f.Fatal("more is true although nothing is due")
		}
	})

	it("a job is due at its time and not before", func(f *fixture) {
		a := f.later(time.Hour)
		f.store.Advance(time.Hour - slack)
		f.wantClaimed(f.claimAll(hooks))
		f.store.Advance(slack)
		f.wantClaimed(f.claimAll(hooks), a.Jobs[0].ID)
	})
}

// later stores a job that is tried again only after a while.
func (f *fixture) later(in time.Duration) store.Accept {
	f.Helper()
	return f.laterIn(hooks, in)
}

func (f *fixture) laterIn(lane store.LaneID, in time.Duration) store.Accept {
	f.Helper()
	a := f.accept(to(lane))
	f.finish(failed(f.claimOne(lane), in))
	return a
}
