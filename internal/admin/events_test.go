package admin_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-anvil/anvil/internal/admin"
	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

const dedupeKey = "ed470e2fc65a6832898c775d0ad6467c9cf144df7ae8e51588c49bebdfded85c"

// remembered gives a webhook a key, which keeps its ids after retention has taken the rest.
func remembered(a *store.Accept) {
	a.Keys = []store.Key{{Value: dedupeKey, TTL: 168 * time.Hour}}
}

func (f *fixture) showEvent(id event.ID) admin.EventDetail {
	f.Helper()
	e, err := f.Event(f.Context(), id.String())
	if err != nil {
		f.Fatal(err)
	}
	return e
}

func TestAnEventShowsTheRequestAsItCame(t *testing.T) {
	f := newFixture(t)
	body := `{"n":1152921506151679042,"s":"café <b>"}`
	a := f.accept(from("github", "acme"), remembered, carrying(event.Payload{
		Method: "POST", Scheme: "https", Host: "hooks.example.com", URI: "/hooks?a=1&b=%20", ClientIP: "192.0.2.1",
		Headers: []event.Header{{Name: "Content-Type", Value: "application/json"}, {Name: "X-Tag", Value: "one"}, {Name: "X-Tag", Value: "two"}},
		Body:    []byte(body),
	}))
	got := encode(t, f.showEvent(a.Event.ID))
	jobs, _ := got["jobs"].([]any)
	if len(jobs) != 1 {
		t.Fatalf("the event has %d jobs, want 1", len(jobs))
	}
	if job, _ := jobs[0].(object); job["id"] != a.Jobs[0].ID.String() || job["state"] != "pending" {
		t.Errorf("its job is %v", job)
	}
	delete(got, "jobs")
	wantJSON(t, got, object{
		"id": a.Event.ID.String(), "source": "github", "tenant": "acme", "verified": true, "eventType": "push", "providerEventId": "d-1",
		"acceptedAt": stamp(t, got["acceptedAt"]), "dedupeKeys": []any{dedupeKey},
		"method": "POST", "scheme": "https", "host": "hooks.example.com", "uri": "/hooks?a=1&b=%20", "clientIp": "192.0.2.1",
		"headers":     []any{[]any{"Content-Type", "application/json"}, []any{"X-Tag", "one"}, []any{"X-Tag", "two"}},
		"contentType": "application/json", "bodySize": float64(len(body)),
		"bodyBase64": base64.StdEncoding.EncodeToString([]byte(body)), "bodyText": body,
	})
}

func TestABodyIsShownAsTextOnlyIfItIsText(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		text bool
	}{
		"empty":       {"", true},
		"nul":         {"a\x00b", true},
		"byte order":  {"\ufeff{}", true},
		"control":     {"\u2028\u001b<>&", true},
		"big numbers": {`{"a":` + strings.Repeat("9", 309) + `,"b":1e400}`, true},
		"latin-1":     {"caf\xe9", false},
		"cut rune":    {"caf\xc3", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			a := f.accept(carrying(event.Payload{Body: []byte(c.body)}))
			got := encode(t, f.showEvent(a.Event.ID))
			if got["bodyBase64"] != base64.StdEncoding.EncodeToString([]byte(c.body)) {
				t.Errorf("bodyBase64 is %q", got["bodyBase64"])
			}
			if text, ok := got["bodyText"]; ok != c.text || ok && text != c.body {
				t.Errorf("bodyText is %q, %v; want it %v", text, ok, c.text)
			}
		})
	}
}

func TestAnEventShowsTheReplaysAmongItsJobs(t *testing.T) {
	f := newFixture(t)
	a := f.in(event.Dead)
	r, err := f.Replay(t.Context(), a.Jobs[0].ID.String(), false)
	if err != nil {
		t.Fatal(err)
	}
	got := f.showEvent(a.Event.ID)
	if len(got.Jobs) != 2 || got.Jobs[0].State != "replayed" || got.Jobs[1].ID.String() != r.JobID || got.Jobs[1].ReplayOf != a.Jobs[0].ID {
		t.Errorf("its jobs are %+v", got.Jobs)
	}
}

func TestEventsAreSelectedByEachParameterAndWalkedToTheEnd(t *testing.T) {
	f := newFixture(t)
	first := f.accept(from("github", "acme"))
	second := f.accept(from("stripe", "acme"), typed("invoice.paid"))
	third := f.accept(from("stripe", ""), typed(""))
	for query, want := range map[string][]event.ID{
		"":                             {third.Event.ID, second.Event.ID, first.Event.ID},
		"source=stripe":                {third.Event.ID, second.Event.ID},
		"tenant=acme":                  {second.Event.ID, first.Event.ID},
		"source=stripe&tenant=acme":    {second.Event.ID},
		"source=other":                 nil,
		"eventType=":                   {third.Event.ID, second.Event.ID, first.Event.ID},
		"eventType=push":               {first.Event.ID},
		"eventType=invoice":            nil,
		"eventType=Push":               nil,
		"eventType=push&tenant=acme":   {first.Event.ID},
		"eventType=push&source=stripe": nil,
		"limit=1":                      {third.Event.ID, second.Event.ID, first.Event.ID},
	} {
		q, _ := url.ParseQuery(query)
		var got []event.ID
		for {
			list, err := f.Events(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range list.Events {
				got = append(got, e.ID)
			}
			if list.NextCursor == nil {
				break
			}
			q.Set("cursor", *list.NextCursor)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", query, diff)
		}
	}
}

func TestAListOfEventsShowsNoPayload(t *testing.T) {
	f := newFixture(t)
	f.accept(carrying(event.Payload{Headers: []event.Header{{Name: "X", Value: "canary"}}, Body: []byte("canary")}))
	list, err := f.Events(t.Context(), nil)
	if err != nil || len(list.Events) != 1 {
		t.Fatalf("%d events, %v", len(list.Events), err)
	}
	if b, _ := json.Marshal(list); strings.Contains(string(b), "canary") || strings.Contains(string(b), "body") {
		t.Errorf("the list is %s", b)
	}
}

func TestAListOfEventsIsRefusedWithTheNameOfTheParameter(t *testing.T) {
	f := newFixture(t)
	for query, want := range map[string]string{
		"state=dead": `"state"`, "limit=0": `"limit"`, "cursor=%21": `"cursor"`, "source=a&source=b": `"source"`,
	} {
		q, _ := url.ParseQuery(query)
		_, err := f.Events(t.Context(), q)
		if e := refusal(t, err, http.StatusBadRequest); !strings.Contains(e.Message, want) {
			t.Errorf("%q is refused with %q", query, e.Message)
		}
	}
}

func TestAnEventThatDoesNotExistIs404AndAPrunedOne410(t *testing.T) {
	f := newFixture(t)
	_, err := f.Event(t.Context(), unknownID)
	refusal(t, err, http.StatusNotFound)
	a := f.in(event.Delivered, remembered)
	f.prune()
	_, err = f.Event(t.Context(), a.Event.ID.String())
	refusal(t, err, http.StatusGone)
}

func TestAnEventWhosePayloadCannotBeReadIs500WithTheReason(t *testing.T) {
	f := newFixture(t)
	a := f.accept(func(a *store.Accept) { a.Event.Payload = []byte{0xff, 1, 2} })
	_, err := f.Event(t.Context(), a.Event.ID.String())
	if e := refusal(t, err, http.StatusInternalServerError); !strings.Contains(e.Message, "payload") {
		t.Errorf("the reason is %q", e.Message)
	}
}
