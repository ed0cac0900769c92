package storetest

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

func acceptSpecs(it specify) {
	it("keeps every field of the event", func(f *fixture) {
		a := f.accept(from("github", "a:b|c'd\"e{f}%*\\\n✓"), keyed(time.Hour, key(2), key(1)), func(a *store.Accept) {
			a.Event.Type, a.Event.ProviderID = "pull_request; --", "évt{1}"
		})
		got, _ := f.event(a.Event.ID)
		want := a.Event
		want.Keys = []string{key(1), key(2)}
		slices.Sort(got.Keys)
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(event.Event{}, "AcceptedAt", "Seq")); diff != "" {
			f.Fatalf("event (-accepted +kept):\n%s", diff)
		}
	})

	it("carries a tenant, type and provider's id of any length from the accept to the prune", func(f *fixture) {
		long := func(c string) string { return strings.Repeat(c, 70_000) } // more than two bytes of length can say
		a := f.accept(from("github", long("t")), keyed(longTTL, key(1)), func(a *store.Accept) {
			a.Event.Type, a.Event.ProviderID = long("y"), long("p")
		})
		token, jobs := f.claim(time.Hour, 10, hooks)
		f.wantClaimed(jobs, a.Jobs[0].ID)
		f.finish(dead(leaseOf(token, jobs[0])))
		kept, _ := f.event(a.Event.ID)
		events := f.allEvents(store.EventFilter{Tenant: long("t"), EventType: long("y"), Limit: 10})
		listed := f.allJobs(store.JobFilter{Tenant: long("t"), EventType: long("y"), Limit: 10})
		if len(events) != 1 || len(listed) != 1 {
			f.Fatalf("the lists have %d events and %d jobs of the tenant and type, want 1 of each", len(events), len(listed))
		}
		for where, e := range map[string]event.Event{"accepted": kept, "claimed": jobs[0].Event, "listed": events[0]} {
			if e.Tenant != long("t") || e.Type != long("y") || e.ProviderID != long("p") {
				f.Errorf("the %s event has a tenant of %d bytes, a type of %d, an id of %d", where, len(e.Tenant), len(e.Type), len(e.ProviderID))
			}
		}
		for where, j := range map[string]event.Job{"claimed": jobs[0].Job, "finished": f.job(a.Jobs[0].ID), "listed": listed[0]} {
			if j.Tenant != long("t") || j.EventType != long("y") || j.ProviderID != long("p") {
				f.Errorf("the %s job has a tenant of %d bytes, a type of %d, an id of %d", where, len(j.Tenant), len(j.EventType), len(j.ProviderID))
			}
		}
		f.wantClaimed(f.claimAll(hooks))
		copied := f.replay(a.Jobs[0].ID)
		f.finish(delivered(f.claimOne(hooks)))
		f.wantState(copied, event.Delivered)
		f.store.Advance(2 * time.Hour)
		f.pruneAll(keepFor(time.Hour))
		f.wantPruned(a, event.Replayed)
	})

	it("keeps whether the event was verified", func(f *fixture) {
		for _, a := range []store.Accept{f.accept(), f.accept(unverified)} {
			if got, _ := f.event(a.Event.ID); got.Verified != a.Event.Verified {
				f.Fatalf("kept as verified=%v, accepted as %v", got.Verified, a.Event.Verified)
			}
		}
	})

	it("takes time, sequence and keys of an event from itself, not from the caller", func(f *fixture) {
		accept := func(key string) event.Event {
			a := f.accept(keyed(time.Hour, key), func(a *store.Accept) {
				a.Event.AcceptedAt = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)
				a.Event.Seq, a.Event.Keys = 1<<40, []string{"the caller's"}
			})
			e, _ := f.event(a.Event.ID)
			if len(e.Keys) != 1 || e.Keys[0] != a.Keys[0].Value {
				f.Fatalf("keys %q, want the claimed one %q", e.Keys, a.Keys[0].Value)
			}
			return e
		}
		first := accept(key(1))
		f.store.Advance(24 * time.Hour)
		second := accept(key(2))
		f.wantAbout("time between two accepts", second.AcceptedAt.Sub(first.AcceptedAt), 24*time.Hour)
		if first.Seq >= second.Seq {
			f.Fatalf("sequence %d does not grow after %d", second.Seq, first.Seq)
		}
	})

	it("stores one pending job for each endpoint", func(f *fixture) {
		lanes := []store.LaneID{
			{Queue: "webhooks", Endpoint: "github/ci"}, {Queue: "slow", Endpoint: "github/ci"}, {Queue: "webhooks", Endpoint: "github/chat"},
		}
		a := f.accept(from("github", "acme"), to(lanes...))
		_, jobs := f.event(a.Event.ID)
		if len(jobs) != len(lanes) {
			f.Fatalf("the event has %d jobs, want %d", len(jobs), len(lanes))
		}
		for i, id := range jobIDs(a) {
			want := event.Job{
				ID: id, EventID: a.Event.ID, Source: "github", Tenant: "acme", EventType: "push", ProviderID: "evt_1",
				Queue: lanes[i].Queue, Endpoint: lanes[i].Endpoint, State: event.Pending,
			}
			got := f.job(id)
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(event.Job{}, "CreatedAt", "RunAt")); diff != "" {
				f.Fatalf("job (-want +got):\n%s", diff)
			}
			f.wantAbout("age of the job at the accept", got.CreatedAt.Sub(accepted(f, a)), 0)
			f.wantAbout("delay of the first attempt", got.RunAt.Sub(got.CreatedAt), 0)
			if !slices.ContainsFunc(jobs, func(j event.Job) bool { return cmp.Equal(j, got) }) {
				f.Fatalf("job %v is not among the event's jobs", id)
			}
			f.wantLedger(id)
		}
	})

	it("answers with the job ids in the order given, whatever the ids are", func(f *fixture) {
		reversed := func(a *store.Accept) {
			to(hooks, hooks, hooks)(a)
			slices.Reverse(a.Jobs)
			keyed(time.Hour, key(1))(a)
		}
		first := f.accept(reversed)
		f.wantDuplicate(webhook(keyed(time.Hour, key(1))), first)
	})

	it("stores an observed job that is over at once", func(f *fixture) {
		a := f.accept(observed)
		j := f.job(a.Jobs[0].ID)
		if j.State != event.Observed || j.EndedAt.IsZero() || j.Attempts != 0 {
			f.Fatalf("job is %v, ended %v, attempts %d; want observed, ended at the accept, none", j.State, j.EndedAt, j.Attempts)
		}
	})

	payloads := []struct {
		name string
		body []byte
	}{
		{"an empty payload", nil},
		{"a payload that is not UTF-8", []byte("\xff\xfe\x00\xc3(\x80'\"\\\r\n\x00")},
		{"a payload of 5 MiB", bytes.Repeat([]byte("0123456789abcde\xff"), 5<<20/16)},
	}
	for _, p := range payloads {
		it("keeps the bytes of "+p.name, func(f *fixture) {
			a := f.accept(payload(p.body))
			if got, _ := f.event(a.Event.ID); !bytes.Equal(got.Payload, p.body) {
				f.Fatalf("the event has %d other bytes, want the %d that came", len(got.Payload), len(p.body))
			}
			if jobs := f.claimAll(hooks); len(jobs) != 1 || !bytes.Equal(jobs[0].Event.Payload, p.body) {
				f.Fatalf("the claim of %d jobs does not give the bytes that came", len(jobs))
			}
		})
	}
}

func accepted(f *fixture, a store.Accept) time.Time {
	f.Helper()
	e, _ := f.event(a.Event.ID)
	return e.AcceptedAt
}

// resendSpecs: a client that got no reply sends the same accept again and must not read its own event as a duplicate.
func resendSpecs(it specify) {
	fanOut := to(hooks, store.LaneID{Queue: "slow", Endpoint: "github/default"})
	cases := []struct {
		name    string
		a       store.Accept
		between func(f *fixture, a store.Accept)
	}{
		{"without keys", webhook(fanOut), func(*fixture, store.Accept) {}},
		{"with keys", webhook(fanOut, keyed(time.Hour, key(1), key(2))), func(*fixture, store.Accept) {}},
		{"after a restart, without keys", webhook(fanOut), func(f *fixture, _ store.Accept) { f.restart() }},
		{"after a restart, with keys", webhook(fanOut, keyed(time.Hour, key(1))), func(f *fixture, _ store.Accept) { f.restart() }},
		{"after a crash", webhook(fanOut, keyed(time.Hour, key(1))), func(f *fixture, _ store.Accept) { f.crash() }},
		{"after its jobs were delivered", webhook(fanOut, keyed(time.Hour, key(1))), func(f *fixture, a store.Accept) {
			for _, j := range a.Jobs {
				f.finish(delivered(f.claimOne(store.LaneID{Queue: j.Queue, Endpoint: j.Endpoint})))
			}
		}},
		{"after the end of its key", webhook(fanOut, keyed(time.Hour, key(1))), func(f *fixture, _ store.Accept) {
			f.store.Advance(2 * time.Hour)
		}},
		{"after another event took its key", webhook(fanOut, keyed(time.Hour, key(1))), func(f *fixture, _ store.Accept) {
			f.store.Advance(2 * time.Hour)
			f.accept(keyed(time.Hour, key(1)))
		}},
		{"at a full backlog", webhook(limited(1)), func(f *fixture, _ store.Accept) {
			_, err := f.store.Accept(f.Context(), webhook(limited(1)))
			f.wantErr(err, store.ErrBacklog)
		}},
	}
	for _, c := range cases {
		it("gives the first answer "+c.name, func(f *fixture) {
			f.wantFirst(c.a)
			c.between(f, c.a)
			before := f.allJobs(store.JobFilter{Limit: 100})
			f.wantFirst(c.a)
			if diff := cmp.Diff(before, f.allJobs(store.JobFilter{Limit: 100})); diff != "" {
				f.Fatalf("sending it again changed the jobs:\n%s", diff)
			}
		})
	}

	it("gives the first answer when that was the ids of another event", func(f *fixture) {
		first := f.accept(keyed(time.Hour, key(1)))
		again := webhook(keyed(time.Hour, key(1), key(2)))
		f.wantDuplicate(again, first)
		f.wantDuplicate(again, first)
	})
}

func durabilitySpecs(it specify) {
	ends := []struct {
		name string
		end  func(f *fixture)
	}{
		{"a restart", (*fixture).restart},
		{"a crash", (*fixture).crash},
	}
	for _, e := range ends {
		it("an accepted event outlives "+e.name, func(f *fixture) {
			a := f.accept(keyed(time.Hour, key(1)), payload([]byte("kept")), to(hooks, f.ownLane()))
			before, beforeJobs := f.event(a.Event.ID)
			e.end(f)
			after, afterJobs := f.event(a.Event.ID)
			if diff := cmp.Diff(before, after) + cmp.Diff(beforeJobs, afterJobs); diff != "" {
				f.Fatalf("event and jobs (-before +after):\n%s", diff)
			}
			f.wantDuplicate(webhook(keyed(time.Hour, key(1))), a)
			f.wantClaimed(f.claimAll(hooks), a.Jobs[0].ID)
		})
		it("outcome and ledger outlive "+e.name, func(f *fixture) {
			a := f.jobIn(event.Dead)
			copied := f.replay(a.Jobs[0].ID)
			before, copyBefore := f.snapshot(a.Jobs[0].ID), f.snapshot(copied)
			e.end(f)
			if diff := cmp.Diff(before, f.snapshot(a.Jobs[0].ID)) + cmp.Diff(copyBefore, f.snapshot(copied)); diff != "" {
				f.Fatalf("job and its copy (-before +after):\n%s", diff)
			}
		})
		it("the sequence still grows after "+e.name, func(f *fixture) {
			before, _ := f.event(f.accept().Event.ID)
			e.end(f)
			if after, _ := f.event(f.accept().Event.ID); after.Seq <= before.Seq {
				f.Fatalf("sequence %d after %d", after.Seq, before.Seq)
			}
		})
	}
}

// restartSpecs are what a store may forget with the process.
func restartSpecs(it specify) {
	it("the sequence grows even when nothing is left of the events before", func(f *fixture) {
		a := f.jobIn(event.Delivered)
		before, _ := f.event(a.Event.ID)
		f.pruneAll(keepFor(0))
		f.wantNothingOf(a)
		f.restart()
		if after, _ := f.event(f.accept().Event.ID); after.Seq <= before.Seq {
			f.Fatalf("sequence %d after %d", after.Seq, before.Seq)
		}
	})

	it("a clock that was set back holds up no new event", func(f *fixture) {
		f.store.Advance(time.Hour)
		f.jobIn(event.Delivered)
		f.restart() // forgets the hour, in a store that takes the time from its own machine
		a := f.accept()
		f.wantClaimed(f.claimAll(hooks), a.Jobs[0].ID)
		dead := f.jobIn(event.Dead)
		copied := f.replay(dead.Jobs[0].ID)
		f.wantClaimed(f.claimAll(laneOf(dead)), copied)
	})
}

// snapshot is all that is known of a job.
type snapshot struct {
	Job    event.Job
	Ledger []event.Attempt
	Err    string
}

func (f *fixture) snapshot(id event.ID) snapshot {
	j, rows, err := f.store.Job(f.Context(), id)
	s := snapshot{Job: j, Ledger: rows}
	if err != nil {
		s.Err = err.Error()
	}
	return s
}
