package admin_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-anvil/anvil/internal/admin"
	"github.com/caddy-anvil/anvil/internal/event"
)

func TestJobsAreSelectedByEachParameter(t *testing.T) {
	f := newFixture(t)
	dead := f.in(event.Dead)
	delivered := f.in(event.Delivered, from("github", "acme"))
	fanOut := f.accept(from("stripe", "acme"), typed("invoice.paid"), to("billing", "stripe/default", "stripe/audit"))
	observed := f.in(event.Observed, from("quiet", ""), typed(""))
	deadBill := f.in(event.Dead, from("shop", ""), to("billing", "shop/default"))

	for query, want := range map[string][]event.ID{
		"":                                ids(dead, delivered, fanOut, observed, deadBill),
		"state=&queue=&cursor=":           ids(dead, delivered, fanOut, observed, deadBill),
		"state=dead":                      ids(dead, deadBill),
		"state=pending":                   ids(fanOut),
		"state=observed":                  ids(observed),
		"state=running":                   nil,
		"queue=billing":                   ids(fanOut, deadBill),
		"queue=billing.dead":              ids(deadBill),
		"queue=webhooks.dead&state=dead":  ids(dead),
		"queue=none":                      nil,
		"source=github":                   ids(dead, delivered),
		"endpoint=stripe/audit":           {fanOut.Jobs[1].ID},
		"endpoint=audit&source=stripe":    {fanOut.Jobs[1].ID},
		"endpoint=audit&source=github":    nil,
		"tenant=acme":                     ids(delivered, fanOut),
		"tenant=acme&source=github":       ids(delivered),
		"source=github&state=dead":        ids(dead),
		"eventType=":                      ids(dead, delivered, fanOut, observed, deadBill),
		"eventType=push":                  ids(dead, delivered, deadBill),
		"eventType=invoice.paid":          ids(fanOut),
		"eventType=invoice":               nil,
		"eventType=Push":                  nil,
		"eventType=push&source=github":    ids(dead, delivered),
		"eventType=push&tenant=acme":      ids(delivered),
		"eventType=push&state=dead":       ids(dead, deadBill),
		"eventType=push&source=quiet":     nil,
		"source=github&queue=billing":     nil,
		"tenant=acme&queue=billing":       ids(fanOut),
		"limit=500":                       ids(dead, delivered, fanOut, observed, deadBill),
		"limit=2&state=dead&queue=":       ids(dead, deadBill),
		"limit=1":                         ids(deadBill),
		"endpoint=quiet/&state=observed":  ids(observed),
		"endpoint=stripe/nobody":          nil,
		"source=stripe&endpoint=github/x": nil,
	} {
		if diff := cmp.Diff(want, f.jobIDs(query)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", query, diff)
		}
	}
}

func TestAListOfJobsIsRefusedWithTheNameOfTheParameterAndWhatIsAllowed(t *testing.T) {
	f := newFixture(t)
	for query, want := range map[string][]string{
		"colour=red":                     {`"colour"`, "unknown", "state, queue, source, endpoint, tenant, eventType, limit, cursor"},
		"event_type=push":                {`"event_type"`, "unknown", "eventType"},
		"eventType=a&eventType=b":        {`"eventType"`, "once"},
		"state=asleep":                   {`"state"`, "asleep", "pending, running, delivered, dead, cancelled, replayed, observed"},
		"state=Dead":                     {`"state"`},
		"state=dead&state=pending":       {`"state"`, "once"},
		"limit=0":                        {`"limit"`, "1 to 500"},
		"limit=501":                      {`"limit"`, "1 to 500"},
		"limit=-1":                       {`"limit"`},
		"limit=ten":                      {`"limit"`, "ten"},
		"limit=99999999999999999999":     {`"limit"`},
		"cursor=%21":                     {`"cursor"`},
		"endpoint=default":               {`"endpoint"`, "source/name"},
		"queue=a.dead&state=pending":     {`"queue"`, `"state"`},
		strings.Repeat("x", 5000) + "=1": {"unknown", "5000 bytes"},
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Jobs(t.Context(), q)
		e := refusal(t, err, http.StatusBadRequest)
		for _, part := range want {
			if !strings.Contains(e.Message, part) {
				t.Errorf("%.40q is refused with %q, want %q in it", query, e.Message, part)
			}
		}
		if len(e.Message) > 300 {
			t.Errorf("%.40q is refused with %d bytes", query, len(e.Message))
		}
	}
}

func TestAWalkThroughTheJobsMeetsEachOnceAndEndsWithNull(t *testing.T) {
	f := newFixture(t)
	want := make([]event.ID, 60)
	for i := range want {
		want[len(want)-1-i] = f.accept().Jobs[0].ID
	}
	for limit, first := range map[string]int{"": 50, "7": 7, "60": 60} {
		var got []event.ID
		q := url.Values{"limit": {limit}}
		for {
			list, err := f.Jobs(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if got == nil && len(list.Jobs) != first {
				t.Errorf("limit %q: the first page has %d jobs, want %d", limit, len(list.Jobs), first)
			}
			for _, j := range list.Jobs {
				got = append(got, j.ID)
			}
			if list.NextCursor == nil {
				break
			}
			q.Set("cursor", *list.NextCursor)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("limit %q (-want +got):\n%s", limit, diff)
		}
	}
}

func TestAnEmptyListIsAListWithANullCursor(t *testing.T) {
	f := newFixture(t)
	jobs, err := f.Jobs(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	wantJSON(t, jobs, object{"jobs": []any{}, "nextCursor": nil})
	events, err := f.Events(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	wantJSON(t, events, object{"events": []any{}, "nextCursor": nil})
}

func (f *fixture) show(id event.ID) admin.JobDetail {
	f.Helper()
	j, err := f.Job(f.Context(), id.String())
	if err != nil {
		f.Fatal(err)
	}
	return j
}

func TestAPendingJobShowsWhenItIsDueAndNothingThatItDoesNotHave(t *testing.T) {
	f := newFixture(t)
	a := f.accept()
	got := encode(t, f.show(a.Jobs[0].ID))
	wantJSON(t, got, object{
		"id": a.Jobs[0].ID.String(), "eventId": a.Event.ID.String(), "source": "github", "endpoint": "github/default",
		"queue": "webhooks", "state": "pending", "attemptCount": 0., "attempts": []any{},
		"createdAt": stamp(t, got["createdAt"]), "runAt": stamp(t, got["runAt"]), "eventType": "push", "providerEventId": "d-1",
	})
}

func TestADeadJobShowsItsLedgerItsDeadLetterQueueAndWhatMadeItDead(t *testing.T) {
	f := newFixture(t)
	a := f.in(event.Dead, from("github", "acme"))
	got := encode(t, f.show(a.Jobs[0].ID))
	wantJSON(t, got, object{
		"id": a.Jobs[0].ID.String(), "eventId": a.Event.ID.String(), "source": "github", "endpoint": "github/default", "tenant": "acme",
		"queue": "webhooks", "deadLetterQueue": "webhooks.dead", "state": "dead", "attemptCount": 1.,
		"createdAt": stamp(t, got["createdAt"]), "endedAt": stamp(t, got["endedAt"]), "eventType": "push", "providerEventId": "d-1",
		"deadReason": "attempts_exhausted", "lastError": "status 500",
		"failureContext": object{"attempts": 1., "lastError": "status 500"},
		"attempts": []any{object{
			"number": 1., "startedAt": "2026-01-02T03:04:05.120000Z", "durationMs": 1.5, "status": 500., "class": "status",
			"error": "status 500", "snippet": "<oops>",
		}},
	})
}

func TestOnlyJobsThatAreOrWereDeadHaveAFailureContext(t *testing.T) {
	f := newFixture(t)
	for _, state := range event.States() {
		a := f.in(state, from("s"+state.String(), ""))
		got := f.show(a.Jobs[0].ID)
		if got.State != state.String() {
			t.Fatalf("job is %s, want %s", got.State, state)
		}
		if has, want := got.FailureContext != nil, state == event.Dead || state == event.Replayed; has != want {
			t.Errorf("%s: failure context %v, want %v", state, has, want)
		}
		if has, want := got.DeadLetterQueue != "", state == event.Dead; has != want {
			t.Errorf("%s: dead-letter queue %q", state, got.DeadLetterQueue)
		}
		if has, want := !got.RunAt.IsZero(), state == event.Pending; has != want {
			t.Errorf("%s: run at %v", state, got.RunAt)
		}
		if has, want := !got.EndedAt.IsZero(), state.Final(); has != want {
			t.Errorf("%s: ended at %v", state, got.EndedAt)
		}
	}
}

func TestAJobThatDoesNotExistIs404AndWhatIsNoIDIs400(t *testing.T) {
	f := newFixture(t)
	_, err := f.Job(t.Context(), unknownID)
	refusal(t, err, http.StatusNotFound)
	for _, id := range []string{
		"", "nonsense", "01890000", "{" + unknownID + "}", "urn:uuid:" + unknownID, strings.ReplaceAll(unknownID, "-", ""),
		unknownID + " ", strings.Repeat("a", 1<<16), "\x00\xff",
	} {
		_, err := f.Job(t.Context(), id)
		if e := refusal(t, err, http.StatusBadRequest); len(e.Message) > 400 {
			t.Errorf("%.40q is refused with %d bytes", id, len(e.Message))
		}
		_, err = f.Event(t.Context(), id)
		refusal(t, err, http.StatusBadRequest)
		_, err = f.Replay(t.Context(), id, true)
		refusal(t, err, http.StatusBadRequest)
		_, err = f.Cancel(t.Context(), id)
		refusal(t, err, http.StatusBadRequest)
	}
}

func TestAPrunedJobIs410WithItsFinalState(t *testing.T) {
	f := newFixture(t)
	a := f.in(event.Delivered, remembered)
	f.prune()
	_, err := f.Job(t.Context(), a.Jobs[0].ID.String())
	e := refusal(t, err, http.StatusGone)
	wantJSON(t, e, object{"error": e.Message, "state": "delivered"})
	if got := f.jobIDs(""); got != nil {
		t.Errorf("pruned jobs are listed: %v", got)
	}
}

// Sorted as text, answers are sorted by time, whatever zone a store's times are in.
func TestTimesAreInUTCWithSixDecimals(t *testing.T) {
	cet := time.FixedZone("CET", 3600)
	for want, at := range map[string]time.Time{
		`"2026-01-02T03:04:05.000000Z"`: time.Date(2026, 1, 2, 4, 4, 5, 0, cet),
		`"2026-01-02T03:04:05.120000Z"`: time.Date(2026, 1, 2, 3, 4, 5, 120_000_999, time.UTC),
	} {
		if got, err := json.Marshal(admin.Time{Time: at}); string(got) != want || err != nil {
			t.Errorf("%v is %s, %v; want %s", at, got, err, want)
		}
	}
}
