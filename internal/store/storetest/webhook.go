package storetest

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// hooks is the lane that jobs go to unless a test says otherwise.
var hooks = store.LaneID{Queue: "webhooks", Endpoint: "github/default"}

func newID() event.ID { return uuid.Must(uuid.NewV7()) }

// key is a dedupe key as the ingress makes them: 64 digits of lower-case hex.
func key(n int) string { return fmt.Sprintf("%064x", n) }

// edit changes a webhook before it is accepted.
type edit func(a *store.Accept)

func webhook(edits ...edit) store.Accept {
	a := store.Accept{Event: event.Event{
		ID: newID(), Source: "github", Verified: true, Type: "push", ProviderID: "evt_1", Payload: []byte("payload"),
	}}
	for _, e := range edits {
		e(&a)
	}
	if a.Jobs == nil {
		to(store.LaneID{Queue: hooks.Queue, Endpoint: a.Event.Source + "/default"})(&a)
	}
	return a
}

func from(source, tenant string) edit {
	return func(a *store.Accept) { a.Event.Source, a.Event.Tenant = source, tenant }
}

func typed(name string) edit {
	return func(a *store.Accept) { a.Event.Type = name }
}

func unverified(a *store.Accept) { a.Event.Verified = false }

func payload(b []byte) edit {
	return func(a *store.Accept) { a.Event.Payload = b }
}

func to(lanes ...store.LaneID) edit {
	return func(a *store.Accept) {
		for _, l := range lanes {
			a.Jobs = append(a.Jobs, store.NewJob{ID: newID(), Queue: l.Queue, Endpoint: l.Endpoint})
		}
	}
}

func observed(a *store.Accept) {
	a.Jobs = append(a.Jobs, store.NewJob{ID: newID(), Queue: hooks.Queue, Endpoint: "github/", Observed: true})
}

func keyed(ttl time.Duration, values ...string) edit {
	return func(a *store.Accept) {
		for _, v := range values {
			a.Keys = append(a.Keys, store.Key{Value: v, TTL: ttl})
		}
	}
}

// ownLane is a lane that no other job of this test is in.
func (f *fixture) ownLane() store.LaneID {
	f.lanes++
	return store.LaneID{Queue: hooks.Queue, Endpoint: fmt.Sprintf("github/own%d", f.lanes)}
}

func laneOf(a store.Accept) store.LaneID {
	return store.LaneID{Queue: a.Jobs[0].Queue, Endpoint: a.Jobs[0].Endpoint}
}

func jobIDs(a store.Accept) []event.ID {
	ids := make([]event.ID, len(a.Jobs))
	for i, j := range a.Jobs {
		ids[i] = j.ID
	}
	return ids
}

// newKey is a key that no other event has.
func newKey() string {
	id := newID()
	return hex.EncodeToString(id[:]) + key(0)[:32]
}
