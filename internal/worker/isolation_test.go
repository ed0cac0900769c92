package worker

import (
	"net/http"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/event"
)

func TestHangingEndpointDelaysNobodyElse(t *testing.T) {
	s := openStore(t)
	hanging, healthy := newUpstream(t, hang), newUpstream(t, always(200))
	start(t, s).Attach(settings(endpoint("a", hanging.url), endpoint("b", healthy.url)))
	var ids []event.ID
	for range 50 {
		accept(t, s, "x", lane("a"))
		accept(t, s, "x", lane("a"))
		ids = append(ids, accept(t, s, "x", lane("b"))[0])
	}
	for _, id := range ids {
		s.untilState(t, id, event.Delivered)
	}
	if n := len(hanging.got()); n != 2 {
		t.Errorf("the hanging endpoint has %d requests, want as many as slots, 2", n)
	}
}

func TestRetryIsDueOnTimeBesideALaneThatFills(t *testing.T) {
	// The answer to a claim that fills one lane hides when the jobs of the others are due.
	s := openStore(t)
	hanging, failing := newUpstream(t, hang), newUpstream(t, always(500, 200))
	e := start(t, s)
	b := endpoint("b", failing.url)
	e.Attach(settings(b))
	id := accept(t, s, "x", lane("b"))[0]
	for range 10 {
		accept(t, s, "x", lane("a"))
	}
	j, _ := s.untilAttempts(t, id, 1)
	e.Attach(settings(endpoint("a", hanging.url), b))
	_, ledger := s.untilState(t, id, event.Delivered)
	if late := ledger[1].StartedAt.Sub(j.RunAt); late > 700*time.Millisecond {
		t.Errorf("the retry came %s late", late)
	}
}

func TestAnEndpointGetsAsManyRequestsAtOnceAsItHasSlots(t *testing.T) {
	s := openStore(t)
	arrived, release := make(chan struct{}, 100), make(chan struct{})
	up := newUpstream(t, func(int, *http.Request) int {
		arrived <- struct{}{}
		<-release
		return 200
	})
	start(t, s).Attach(settings(endpoint("a", up.url, func(ep *Endpoint) { ep.Concurrency = 8 })))
	var ids []event.ID
	for range 40 {
		ids = append(ids, accept(t, s, "x", lane("a"))[0])
	}
	for range 8 {
		<-arrived
	}
	close(release)
	for _, id := range ids {
		s.untilState(t, id, event.Delivered)
	}
	if up.most != 8 {
		t.Errorf("%d requests at once, want 8", up.most)
	}
}

func TestLoweredConcurrencyHoldsForNewAttempts(t *testing.T) {
	s := openStore(t)
	release := make(chan struct{})
	up := newUpstream(t, func(n int, _ *http.Request) int {
		if n <= 8 {
			<-release
		}
		return 200
	})
	with := func(n int) Settings {
		return settings(endpoint("a", up.url, func(ep *Endpoint) { ep.Concurrency = n }))
	}
	e := start(t, s)
	e.Attach(with(8))
	var ids []event.ID
	for range 30 {
		ids = append(ids, accept(t, s, "x", lane("a"))[0])
	}
	s.until(t, "the slots are taken", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.busy["src/a"] == 8
	})
	e.Attach(with(1))
	close(release)
	for _, id := range ids {
		s.untilState(t, id, event.Delivered)
	}
	if len(up.got()) != 30 {
		t.Errorf("%d requests for 30 jobs", len(up.got()))
	}
}
