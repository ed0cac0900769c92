package admin_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

func counts(of object) object {
	all := object{
		"pending": 0., "running": 0., "delivered": 0., "dead": 0., "cancelled": 0., "replayed": 0., "observed": 0., "oldestPendingSeconds": 0.,
	}
	for k, v := range of {
		all[k] = v
	}
	return all
}

func TestStatsCountJobsByQueueAndByEndpointInAStableOrder(t *testing.T) {
	f := newFixture(t)
	f.Unrouted = func(lanes []store.LaneStats) int64 { return int64(len(lanes)) + 100 }
	f.in(event.Running, from("zeta", ""))
	f.in(event.Cancelled, from("zeta", ""))
	f.in(event.Delivered)
	f.in(event.Delivered, to("mail", "github/default"))
	f.in(event.Observed, from("zeta", ""))
	f.in(event.Observed)
	f.in(event.Dead)
	f.in(event.Replayed, from("alpha", ""), to("mail", "alpha/x")) // and its copy, pending
	got := encode(t, must(f.Stats(t.Context())))

	if bytes, _ := got["bytes"].(float64); bytes < 4096 {
		t.Errorf("the store has %v bytes", got["bytes"])
	}
	delete(got, "bytes")
	for _, list := range []string{"queues", "endpoints"} {
		for _, row := range got[list].([]any) {
			if o := row.(object); o["oldestPendingSeconds"].(float64) > 60 || (o["oldestPendingSeconds"] != 0.) && o["pending"] == 0. {
				t.Errorf("the oldest pending is wrong in %v", o)
			}
			row.(object)["oldestPendingSeconds"] = 0.
		}
	}
	row := func(names, of object) any {
		o := counts(of)
		for k, v := range names {
			o[k] = v
		}
		return o
	}
	endpoint := func(source, endpoint, queue string, of object) any {
		return row(object{"source": source, "endpoint": endpoint, "queue": queue}, of)
	}
	want := object{
		"store": f.store.Describe(), "unrouted": 106., "warnings": []any{},
		"queues": []any{
			row(object{"queue": "mail"}, object{"delivered": 1., "replayed": 1., "pending": 1.}),
			row(object{"queue": "webhooks"}, object{"delivered": 1., "dead": 1., "running": 1., "cancelled": 1., "observed": 2.}),
		},
		"endpoints": []any{
			endpoint("alpha", "alpha/x", "mail", object{"replayed": 1., "pending": 1.}),
			endpoint("github", "github/", "webhooks", object{"observed": 1.}),
			endpoint("github", "github/default", "mail", object{"delivered": 1.}),
			endpoint("github", "github/default", "webhooks", object{"delivered": 1., "dead": 1.}),
			endpoint("zeta", "zeta/", "webhooks", object{"observed": 1.}),
			endpoint("zeta", "zeta/default", "webhooks", object{"running": 1., "cancelled": 1.}),
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
}

func TestTheAgeOfAQueueIsThatOfItsOldestPendingJob(t *testing.T) {
	f := newFixture(t)
	f.accept(to("webhooks", "github/old"))
	f.store.Advance(time.Hour)
	f.accept(to("webhooks", "github/new"))
	f.store.Advance(10 * time.Minute)
	got := must(f.Stats(t.Context()))
	within := func(what string, seconds, from, to float64) {
		t.Helper()
		if seconds < from || seconds > to {
			t.Errorf("%s is %v s old, want %v to %v", what, seconds, from, to)
		}
	}
	within("the queue", got.Queues[0].OldestPendingSeconds, 4200, 4260)
	within(got.Endpoints[0].Endpoint, got.Endpoints[0].OldestPendingSeconds, 600, 660)
	within(got.Endpoints[1].Endpoint, got.Endpoints[1].OldestPendingSeconds, 4200, 4260)
}

func TestStatsOfAnEmptyStoreHaveEmptyLists(t *testing.T) {
	f := newFixture(t)
	got := encode(t, must(f.Stats(t.Context())))
	for _, list := range []string{"queues", "endpoints", "warnings"} {
		if v, ok := got[list].([]any); !ok || len(v) != 0 {
			t.Errorf("%s is %v, want []", list, got[list])
		}
	}
	if got["unrouted"] != 0. {
		t.Errorf("unrouted is %v", got["unrouted"])
	}
}

func TestStatsPassOnTheWarningsOfTheStore(t *testing.T) {
	f := newFixture(t)
	f.store.SetMinFree(1 << 62)
	if got := must(f.Stats(t.Context())); len(got.Warnings) != 1 {
		t.Errorf("the warnings are %q, want one about the disk", got.Warnings)
	}
}
