package storetest

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

func cursorSpecs(it specify) {
	it("a walk is complete and repeats nothing, whatever the limit", func(f *fixture) {
		var events, jobs []event.ID
		for range 25 {
			a := f.accept(to(hooks, hooks))
			events, jobs = append(events, a.Event.ID), append(jobs, jobIDs(a)...)
		}
		for _, limit := range []int{1, 2, 7, 25, 50, 51, 1000} {
			f.wantSame(jobs, idsOfJobs(f.allJobs(store.JobFilter{Limit: limit})))
			f.wantSame(events, idsOfEvents(f.allEvents(store.EventFilter{Limit: limit})))
		}
	})

	it("new events during a walk change nothing of it", func(f *fixture) {
		var events, jobs []event.ID
		for range 20 {
			a := f.accept()
			events, jobs = append(events, a.Event.ID), append(jobs, jobIDs(a)...)
		}
		filter := store.JobFilter{Limit: 3}
		gotJobs := walk(f, func(cursor string) ([]event.Job, string, error) {
			filter.Cursor = cursor
			defer f.accept()
			return f.store.Jobs(f.Context(), filter)
		}, filter.Limit)
		f.wantSame(jobs, idsOfJobs(gotJobs))

		all := idsOfEvents(f.allEvents(store.EventFilter{Limit: 100}))
		eventFilter := store.EventFilter{Limit: 3}
		gotEvents := walk(f, func(cursor string) ([]event.Event, string, error) {
			eventFilter.Cursor = cursor
			defer f.accept()
			return f.store.Events(f.Context(), eventFilter)
		}, eventFilter.Limit)
		f.wantSame(all, idsOfEvents(gotEvents))
		if len(all) <= len(events) {
			f.Fatal("no event came during the walk")
		}
	})

	it("changes of state during a walk neither repeat nor hide a job", func(f *fixture) {
		var jobs []event.ID
		for range 20 {
			jobs = append(jobs, f.accept().Jobs[0].ID)
		}
		filter := store.JobFilter{Limit: 3}
		got := walk(f, func(cursor string) ([]event.Job, string, error) {
			filter.Cursor = cursor
			token, claimed := f.claim(time.Hour, 2, hooks)
			for _, c := range claimed {
				f.finish(delivered(leaseOf(token, c)))
			}
			return f.store.Jobs(f.Context(), filter)
		}, filter.Limit)
		f.wantSame(jobs, idsOfJobs(got))
	})

	it("a cursor that this store did not make is refused", func(f *fixture) {
		for range 3 {
			f.accept()
		}
		for _, bad := range []string{
			"!!!", " ", "null", "undefined", "é", "\xff\xfe\x00", "' OR 1=1 --", "../..", "{}", strings.Repeat("A", 10_000),
		} {
			_, _, err := f.store.Jobs(f.Context(), store.JobFilter{Limit: 1, Cursor: bad})
			f.wantErr(err, store.ErrCursor)
			_, _, err = f.store.Events(f.Context(), store.EventFilter{Limit: 1, Cursor: bad})
			f.wantErr(err, store.ErrCursor)
		}
	})

	it("the one match behind a page's worth of others is found", func(f *fixture) {
		if testing.Short() {
			f.Skip("thousands of events, skipped with -short")
		}
		rare := f.accept(from("github", "rare"), typed("rare"))
		f.acceptMany(store.PageScan + 100)
		for _, filter := range []store.JobFilter{{Tenant: "rare"}, {EventType: "rare"}} {
			f.wantListed(filter, rare.Jobs[0].ID)
		}
		for _, filter := range []store.EventFilter{{Tenant: "rare", Limit: 2}, {EventType: "rare", Limit: 2}} {
			f.wantSame([]event.ID{rare.Event.ID}, idsOfEvents(f.allEvents(filter)))
		}
		if n := len(f.allJobs(store.JobFilter{Tenant: "common", Limit: 997})); n != store.PageScan+100 {
			f.Fatalf("%d jobs of the other tenant, want %d", n, store.PageScan+100)
		}
	})
}

// acceptMany stores n events of the tenant "common" as fast as the store takes them together.
func (f *fixture) acceptMany(n int) {
	f.Helper()
	const workers = 50
	f.parallel(workers, func(i int) error {
		for j := i; j < n; j += workers {
			if _, err := f.store.Accept(f.Context(), webhook(from("github", "common"))); err != nil {
				return err
			}
		}
		return nil
	})
}

func (f *fixture) wantSame(want, got []event.ID) {
	f.Helper()
	if diff := cmp.Diff(want, got, cmpopts.SortSlices(lessID)); diff != "" {
		f.Fatalf("ids (-want +got):\n%s", diff)
	}
}

func idsOfJobs(jobs []event.Job) (ids []event.ID) {
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

func idsOfEvents(events []event.Event) (ids []event.ID) {
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	return ids
}
