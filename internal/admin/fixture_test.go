package admin_test

import (
	"encoding/json"
	"errors"
	"net/url"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/caddy-anvil/anvil/internal/admin"
	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/store/sqlite"
)

const unknownID = "01890000-0000-7000-8000-000000000000"

// object is JSON as a client sees it.
type object = map[string]any

// fixture is a service over a real store.
type fixture struct {
	*testing.T
	*admin.Service
	store *sqlite.Store
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "anvil.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return &fixture{T: t, Service: &admin.Service{Store: s, NewID: newID}, store: s}
}

func newID() event.ID { return uuid.Must(uuid.NewV7()) }

// edit changes a webhook before it is accepted.
type edit func(a *store.Accept)

func from(source, tenant string) edit {
	return func(a *store.Accept) { a.Event.Source, a.Event.Tenant = source, tenant }
}

func typed(name string) edit {
	return func(a *store.Accept) { a.Event.Type = name }
}

func to(queue string, endpoints ...string) edit {
	return func(a *store.Accept) {
		for _, e := range endpoints {
			a.Jobs = append(a.Jobs, store.NewJob{ID: newID(), Queue: queue, Endpoint: e})
		}
	}
}

func carrying(p event.Payload) edit {
	return func(a *store.Accept) { a.Event.Payload = p.Encode() }
}

// accept stores a webhook of source github with one job for github/default in the queue webhooks, unless edited.
func (f *fixture) accept(edits ...edit) store.Accept {
	f.Helper()
	a := store.Accept{Event: event.Event{
		ID: newID(), Source: "github", Verified: true, Type: "push", ProviderID: "d-1",
		Payload: (&event.Payload{Method: "POST", Body: []byte("{}")}).Encode(),
	}}
	for _, e := range edits {
		e(&a)
	}
	if a.Jobs == nil {
		to("webhooks", a.Event.Source+"/default")(&a)
	}
	if _, err := f.store.Accept(f.Context(), a); err != nil {
		f.Fatal(err)
	}
	return a
}

// in stores a webhook and brings its only job into a state; the job's lane must have no other due job.
func (f *fixture) in(state event.State, edits ...edit) store.Accept {
	f.Helper()
	if state == event.Observed {
		edits = append(edits, func(a *store.Accept) {
			a.Jobs = []store.NewJob{{ID: newID(), Queue: "webhooks", Endpoint: a.Event.Source + "/", Observed: true}}
		})
	}
	a := f.accept(edits...)
	id := a.Jobs[0].ID.String()
	switch state {
	case event.Running:
		f.claim(a)
	case event.Delivered:
		f.finish(a, event.Delivered, event.Attempt{Status: 204, Class: event.ClassDelivered})
	case event.Dead, event.Replayed:
		f.finish(a, event.Dead, event.Attempt{Status: 500, Class: event.ClassStatus, Error: "status 500", Snippet: "<oops>"})
		if state == event.Replayed {
			if r, err := f.Replay(f.Context(), id, false); err != nil || !r.Replayed {
				f.Fatalf("replaying: %+v, %v", r, err)
			}
		}
	case event.Cancelled:
		if c, err := f.Cancel(f.Context(), id); err != nil || !c.Cancelled {
			f.Fatalf("cancelling: %+v, %v", c, err)
		}
	}
	return a
}

func (f *fixture) claim(a store.Accept) store.Lease {
	f.Helper()
	token := newID()
	lane := store.LaneID{Queue: a.Jobs[0].Queue, Endpoint: a.Jobs[0].Endpoint}
	got, err := f.store.Claim(f.Context(), store.Claim{Token: token, Lanes: []store.Lane{{LaneID: lane, Max: 10}}, Lease: time.Hour})
	if err != nil || len(got.Jobs) != 1 || got.Jobs[0].Job.ID != a.Jobs[0].ID {
		f.Fatalf("claiming: %d jobs, %v", len(got.Jobs), err)
	}
	return store.Lease{Job: a.Jobs[0].ID, Token: token, Attempt: got.Jobs[0].Job.Attempts}
}

var attemptStart = time.Date(2026, 1, 2, 4, 4, 5, 120_000_000, time.FixedZone("CET", 3600))

func (f *fixture) finish(a store.Accept, state event.State, row event.Attempt) {
	f.Helper()
	l := f.claim(a)
	row.Number, row.StartedAt, row.Duration = l.Attempt, attemptStart, 1500*time.Microsecond
	fin := store.Finish{Lease: l, State: state, Row: row}
	if state == event.Dead {
		fin.Reason = event.ReasonAttempts
	}
	if lost, err := f.store.Finish(f.Context(), fin); err != nil || lost {
		f.Fatalf("finishing: lost %v, %v", lost, err)
	}
}

// prune makes every retention pass.
func (f *fixture) prune() {
	f.Helper()
	f.store.Advance(time.Hour)
	for more := true; more; {
		var err error
		if more, err = f.store.Prune(f.Context(), store.Retention{}); err != nil {
			f.Fatal(err)
		}
	}
}

func (f *fixture) jobIDs(query string) []event.ID {
	f.Helper()
	q, err := url.ParseQuery(query)
	if err != nil {
		f.Fatal(err)
	}
	list, err := f.Jobs(f.Context(), q)
	if err != nil {
		f.Fatalf("listing jobs with %q: %v", query, err)
	}
	var ids []event.ID
	for _, j := range list.Jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

func ids(accepts ...store.Accept) []event.ID {
	var out []event.ID
	for _, a := range slices.Backward(accepts) {
		for _, j := range slices.Backward(a.Jobs) {
			out = append(out, j.ID)
		}
	}
	return out
}

// encode is v as a client sees it.
func encode(t *testing.T, v any) object {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var o object
	if err := json.Unmarshal(b, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

func wantJSON(t *testing.T, got any, want object) {
	t.Helper()
	if diff := cmp.Diff(want, encode(t, got)); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

// refusal wants an error of the service with this status and returns it.
func refusal(t *testing.T, err error, status int) *admin.Error {
	t.Helper()
	var e *admin.Error
	if !errors.As(err, &e) || e.Status != status || e.Message == "" {
		t.Fatalf("error %#v, want one with status %d and a reason", err, status)
	}
	return e
}

// stamp is a time that must be in the answers' form; it stands for itself when compared.
func stamp(t *testing.T, v any) any {
	t.Helper()
	text, _ := v.(string)
	if _, err := time.Parse("2006-01-02T15:04:05.000000Z", text); err != nil {
		t.Errorf("%v is not a time in UTC with six decimals", v)
	}
	return v
}
