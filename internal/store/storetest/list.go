package storetest

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

func listSpecs(it specify) {
	it("an empty store has empty lists", func(f *fixture) {
		if jobs, events := f.allJobs(store.JobFilter{Limit: 10}), f.allEvents(store.EventFilter{Limit: 10}); len(jobs)+len(events) != 0 {
			f.Fatalf("%d jobs, %d events", len(jobs), len(events))
		}
	})

	it("an entry is what Job and Event tell, without the payload", func(f *fixture) {
		a := f.jobIn(event.Replayed, from("github", "acme"), keyed(time.Hour, key(1)))
		jobs := f.allJobs(store.JobFilter{Limit: 10})
		if len(jobs) != 2 {
			f.Fatalf("%d jobs are listed, want the replayed one and its copy", len(jobs))
		}
		for _, j := range jobs {
			if diff := cmp.Diff(f.job(j.ID), j); diff != "" {
				f.Fatalf("job (-alone +listed):\n%s", diff)
			}
		}
		want, _ := f.event(a.Event.ID)
		want.Payload = nil
		if diff := cmp.Diff([]event.Event{want}, f.allEvents(store.EventFilter{Limit: 10}), cmpopts.EquateEmpty()); diff != "" {
			f.Fatalf("events (-alone +listed):\n%s", diff)
		}
	})

	it("newest first, by time and then by id", func(f *fixture) {
		// Together, so that several share a moment, and in the other order than their ids.
		all := make([]store.Accept, 60)
		for i := range all {
			all[i] = webhook(to(hooks, hooks))
		}
		slices.Reverse(all)
		f.parallel(len(all), func(i int) error {
			_, err := f.store.Accept(f.Context(), all[i])
			return err
		})
		f.store.Advance(time.Second)
		f.accept()
		jobs := f.allJobs(store.JobFilter{Limit: 7})
		if len(jobs) != 2*len(all)+1 {
			f.Fatalf("%d jobs are listed, want %d", len(jobs), 2*len(all)+1)
		}
		for i := 1; i < len(jobs); i++ {
			if a, b := jobs[i-1], jobs[i]; !newer(a.CreatedAt, a.ID, b.CreatedAt, b.ID) {
				f.Fatalf("job %v of %v stands before %v of %v", a.ID, a.CreatedAt, b.ID, b.CreatedAt)
			}
		}
		events := f.allEvents(store.EventFilter{Limit: 7})
		if len(events) != len(all)+1 {
			f.Fatalf("%d events are listed, want %d", len(events), len(all)+1)
		}
		for i := 1; i < len(events); i++ {
			if a, b := events[i-1], events[i]; !newer(a.AcceptedAt, a.ID, b.AcceptedAt, b.ID) {
				f.Fatalf("event %v of %v stands before %v of %v", a.ID, a.AcceptedAt, b.ID, b.AcceptedAt)
			}
		}
	})

	it("time decides before the id", func(f *fixture) {
		second, first := webhook(), webhook() // made the other way round
		f.wantFirst(first)
		f.store.Advance(time.Second)
		f.wantFirst(second)
		f.wantListed(store.JobFilter{}, second.Jobs[0].ID, first.Jobs[0].ID)
	})

	it("a copy stands where it was made", func(f *fixture) {
		old := f.jobIn(event.Dead)
		f.store.Advance(time.Second)
		between := f.accept()
		f.store.Advance(time.Second)
		copied := f.replay(old.Jobs[0].ID)
		f.wantListed(store.JobFilter{}, copied, between.Jobs[0].ID, old.Jobs[0].ID)
	})

	it("every filter of jobs selects, alone and with the others", func(f *fixture) {
		var all []event.Job
		types := []string{"", "push", "Push", "push.tag"} // four beside three tenants, so that they meet in every pair
		for _, state := range []event.State{event.Pending, event.Delivered} {
			for _, queue := range []string{"webhooks", "slow"} {
				for _, endpoint := range []string{"github/ci", "github/chat", "stripe/ci"} {
					for _, tenant := range []string{"", "acme", "Acme"} {
						source, _, _ := strings.Cut(endpoint, "/")
						lane := store.LaneID{Queue: queue, Endpoint: endpoint + strconv.Itoa(len(all))}
						a := f.jobIn(state, from(source, tenant), typed(types[len(all)%len(types)]), to(lane))
						all = append(all, f.job(a.Jobs[0].ID))
					}
				}
			}
		}
		pending, dead := event.Pending, event.Dead
		for _, filter := range []store.JobFilter{
			{},
			{State: &pending},
			{State: &dead},
			{Queue: "slow"},
			{Queue: "slo"},
			{Source: "github"},
			{Source: "git"},
			{Endpoint: all[4].Endpoint},
			{Endpoint: "github/ci"},
			{Tenant: "acme"},
			{EventType: "push"},
			{EventType: "Push"},
			{EventType: "pus"},
			{EventType: "tag"},
			{EventType: "push", Source: "github"},
			{EventType: "push", Tenant: "acme"},
			{EventType: "push", State: &pending},
			{EventType: "push.tag", State: &dead},
			{EventType: "push", Source: "github", Tenant: "acme", State: &pending},
			{EventType: "push", Queue: "slow", Endpoint: all[13].Endpoint},
			{EventType: "Push", Endpoint: all[13].Endpoint},
			{State: &pending, Queue: "slow"},
			{State: &pending, Queue: "slow", Source: "stripe", Tenant: "Acme"},
			{Queue: "webhooks", Endpoint: all[0].Endpoint, Tenant: "acme"},
			{State: &pending, Endpoint: all[1].Endpoint, Tenant: "acme"},
			{Source: "stripe", Endpoint: all[0].Endpoint},
		} {
			var want []event.ID
			for _, j := range all {
				if (filter.State == nil || *filter.State == j.State) && (filter.Queue == "" || filter.Queue == j.Queue) &&
					(filter.Source == "" || filter.Source == j.Source) && (filter.Endpoint == "" || filter.Endpoint == j.Endpoint) &&
					(filter.Tenant == "" || filter.Tenant == j.Tenant) && (filter.EventType == "" || filter.EventType == j.EventType) {
					want = append(want, j.ID)
				}
			}
			slices.Reverse(want)
			f.wantListed(filter, want...)
		}
	})

	it("each state can be listed", func(f *fixture) {
		for _, state := range event.States() {
			if state == event.Pending || state == event.Replayed {
				continue
			}
			a := f.jobIn(state)
			f.wantListed(store.JobFilter{State: &state}, a.Jobs[0].ID)
		}
		pending, replayed := event.Pending, event.Replayed
		a := f.jobIn(event.Dead)
		copied := f.replay(a.Jobs[0].ID)
		f.wantListed(store.JobFilter{State: &pending}, copied)
		f.wantListed(store.JobFilter{State: &replayed}, a.Jobs[0].ID)
	})

	it("a job is listed by its type in each state, and one without a type by none", func(f *fixture) {
		for _, state := range event.States() {
			if state == event.Pending || state == event.Replayed {
				continue
			}
			f.jobIn(state, typed(""))
			a := f.jobIn(state, typed("kind of "+state.String()))
			f.wantListed(store.JobFilter{State: &state, EventType: a.Event.Type}, a.Jobs[0].ID)
			f.wantListed(store.JobFilter{EventType: a.Event.Type}, a.Jobs[0].ID)
		}
		pending, replayed := event.Pending, event.Replayed
		a := f.jobIn(event.Dead, typed("again"))
		copied := f.replay(a.Jobs[0].ID)
		f.accept(typed(""))
		f.wantListed(store.JobFilter{EventType: "again"}, copied, a.Jobs[0].ID)
		f.wantListed(store.JobFilter{State: &pending, EventType: "again"}, copied)
		f.wantListed(store.JobFilter{State: &replayed, EventType: "again"}, a.Jobs[0].ID)
		f.wantListed(store.JobFilter{EventType: "never sent"})
	})

	it("source, tenant and type filter events, alone and together", func(f *fixture) {
		var all []store.Accept
		for _, source := range []string{"github", "stripe"} {
			for _, tenant := range []string{"", "acme", "other"} {
				for _, name := range []string{"", "push", "Push", "push.tag"} {
					all = append(all, f.accept(from(source, tenant), typed(name)))
				}
			}
		}
		for _, filter := range []store.EventFilter{
			{},
			{Source: "stripe"},
			{Tenant: "acme"},
			{Source: "github", Tenant: "other"},
			{Source: "strip"},
			{Source: "stripe", Tenant: "none"},
			{EventType: "push"},
			{EventType: "Push"},
			{EventType: "pus"},
			{EventType: "tag"},
			{EventType: "push", Source: "stripe"},
			{EventType: "push.tag", Tenant: "acme"},
			{EventType: "push", Source: "github", Tenant: "other"},
			{EventType: "none", Source: "stripe"},
		} {
			var want, got []event.ID
			for _, a := range slices.Backward(all) {
				if (filter.Source == "" || filter.Source == a.Event.Source) && (filter.Tenant == "" || filter.Tenant == a.Event.Tenant) &&
					(filter.EventType == "" || filter.EventType == a.Event.Type) {
					want = append(want, a.Event.ID)
				}
			}
			filter.Limit = 2
			for _, e := range f.allEvents(filter) {
				got = append(got, e.ID)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				f.Fatalf("events of %+v (-want +got):\n%s", filter, diff)
			}
		}
	})

	it("does not know what was never stored", func(f *fixture) {
		a := f.accept()
		_, _, err := f.store.Job(f.Context(), newID())
		f.wantErr(err, store.ErrNotFound)
		_, _, err = f.store.Event(f.Context(), newID())
		f.wantErr(err, store.ErrNotFound)
		_, _, err = f.store.Job(f.Context(), a.Event.ID)
		f.wantErr(err, store.ErrNotFound)
		_, _, err = f.store.Event(f.Context(), a.Jobs[0].ID)
		f.wantErr(err, store.ErrNotFound)
	})
}

func newer(t time.Time, id event.ID, than time.Time, thanID event.ID) bool {
	return t.After(than) || t.Equal(than) && lessID(thanID, id)
}

// wantListed wants exactly these jobs in this order, in small pages.
func (f *fixture) wantListed(filter store.JobFilter, want ...event.ID) {
	f.Helper()
	filter.Limit = 2
	var got []event.ID
	for _, j := range f.allJobs(filter) {
		got = append(got, j.ID)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.Fatalf("jobs of %+v (-want +got):\n%s", filter, diff)
	}
}
