package redis

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/redistest"
	"github.com/caddy-anvil/anvil/internal/store"
)

func TestACallThatNobodyWaitsForAnyMoreIsNotSent(t *testing.T) {
	sending, free := make(chan *op, 3), make(chan struct{})
	b := newBatcher(1, func(_ context.Context, group []*op) {
		sending <- group[0]
		<-free
	})
	stays, gives := make(chan struct{}), make(chan struct{})
	add := func(gone <-chan struct{}) *op {
		o := &op{gone: gone, done: make(chan struct{})}
		if err := b.add(o); err != nil {
			t.Fatal(err)
		}
		return o
	}
	for range flights {
		add(stays)
		<-sending
	}
	given, last := add(gives), add(stays)
	close(gives)
	close(free)
	if o := <-sending; o != last {
		t.Errorf("the call whose caller gave up was sent: %v", o == given)
	}
	<-given.done
	b.close()
}

// grouped opens a store that sends the accepts of the webhooks, in their order, as one group. before runs when all are there.
func grouped(t *testing.T, server *redistest.Server, before func(), webhooks ...store.Accept) (errs []error) {
	t.Helper()
	s, err := Open(t.Context(), Options{Addr: server.Addr(), Prefix: "anvil", AcceptTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	waiting, sent := make(chan *op), make(chan struct{})
	collect := s.batch.send
	var group []*op
	errs = make([]error, len(webhooks))
	ended := make(chan struct{}, len(webhooks))
	for i, a := range webhooks {
		s.batch = newBatcher(1, func(_ context.Context, one []*op) { waiting <- one[0]; <-sent })
		go func() {
			_, errs[i] = s.Accept(t.Context(), a)
			ended <- struct{}{}
		}()
		group = append(group, <-waiting)
	}
	before()
	collect(t.Context(), group)
	close(sent)
	for range webhooks {
		<-ended
	}
	return errs
}

func anAccept() store.Accept {
	return store.Accept{
		Event: event.Event{ID: uuid.Must(uuid.NewV7()), Source: "github", Payload: []byte("payload")},
		Jobs:  []store.NewJob{{ID: uuid.Must(uuid.NewV7()), Queue: "webhooks", Endpoint: "github/default"}},
	}
}

func TestAnAcceptThatCannotBeWrittenFailsNoOtherOfItsGroup(t *testing.T) {
	for name, before := range map[string]func(*redistest.Server){
		"whose script is known":     func(*redistest.Server) {},
		"whose script is forgotten": func(s *redistest.Server) { s.Do("SCRIPT", "FLUSH") },
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			first, bad, last := anAccept(), anAccept(), anAccept()
			if errs := grouped(t, server, func() {}, anAccept()); errs[0] != nil { // so that the server knows the script
				t.Fatal(errs[0])
			}
			server.Do("HSET", "{anvil}:event:"+string(bad.Event.ID[:]), "not", "a string")
			errs := grouped(t, server, func() { before(server) }, first, bad, last)
			if errs[0] != nil || !errors.Is(errs[1], store.ErrUnavailable) || errs[2] != nil {
				t.Errorf("accepting: %v; want an error of the second only", errs)
			}
		})
	}
}

func TestJobsOfOneGroupAreClaimedInItsOrder(t *testing.T) {
	server := redistest.Start(t)
	late, early := anAccept(), anAccept() // by their ids it would be the other way round
	if errs := grouped(t, server, func() {}, early, late); errors.Join(errs...) != nil {
		t.Fatal(errs)
	}
	s, err := Open(t.Context(), Options{Addr: server.Addr(), Prefix: "anvil", AcceptTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got, err := s.Claim(t.Context(), store.Claim{Token: uuid.New(), Lease: time.Minute, Lanes: []store.Lane{
		{LaneID: store.LaneID{Queue: "webhooks", Endpoint: "github/default"}, Max: 2},
	}})
	if err != nil || len(got.Jobs) != 2 || got.Jobs[0].Job.ID != early.Jobs[0].ID {
		t.Errorf("claimed %+v, %v; want the two in the order in which they were accepted", got.Jobs, err)
	}
}

// A new instance may say which lanes it knows between another's look for orphans and their end.
func TestOrphansOfALaneThatIsNotedInTheMeantimeAreSpared(t *testing.T) {
	server := redistest.Start(t)
	s, err := Open(t.Context(), Options{Addr: server.Addr(), Prefix: "anvil", AcceptTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	a := anAccept()
	if _, err := s.Accept(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	s.Advance(2 * time.Hour)
	l := store.LaneID{Queue: "webhooks", Endpoint: "github/default"}
	if err := s.Configured(t.Context(), []store.LaneID{l}); err != nil {
		t.Fatal(err)
	}
	// As Orphans does it for a lane that it has found before.
	_, err = s.run(t.Context(), scriptOrphans,
		[]string{s.keys.due(l), s.keys.wait(l), s.keys.final(event.Dead), s.keys.ended(event.Dead, l.Queue)},
		laneText(l), l.Queue, time.Hour.Microseconds(), 10, string(event.ReasonNoEndpoint), errNoEndpoint)
	if err != nil {
		t.Fatal(err)
	}
	if j, _, err := s.Job(t.Context(), a.Jobs[0].ID); err != nil || j.State != event.Pending {
		t.Errorf("the job is %v, %v; want it to wait", j.State, err)
	}
}
