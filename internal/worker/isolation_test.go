package worker

import (
	"net/http"
	"sync/atomic"
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
	opened, passed := time.Now(), atomic.Int64{}
	s := openStoreBy(t, func() time.Time { return opened.Add(time.Duration(passed.Load())) })
	hanging, failing := newUpstream(t, hang), newUpstream(t, always(500, 200))
	e := start(t, s)
	b := endpoint("b", failing.url, func(ep *Endpoint) { ep.Retry = RetryPolicy{Delays: []time.Duration{50 * time.Millisecond}} })
	e.Attach(settings(b))
	id := accept(t, s, "x", lane("b"))[0]
	for range 10 {
		accept(t, s, "x", lane("a"))
	}
	s.untilAttempts(t, id, 1)
	e.Attach(settings(endpoint("a", hanging.url), b))
	s.until(t, "the lane is full", func() bool { return len(hanging.got()) == 2 })
	// The time passes without a word, and the next look that nothing asks for is an hour away.
	passed.Store(int64(time.Second))
	s.untilState(t, id, event.Delivered)
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
	if most, _ := up.atOnce(); most != 8 {
		t.Errorf("%d requests at once, want 8", most)
	}
}

func TestLoweredConcurrencyHoldsForNewAttempts(t *testing.T) {
	s := openStore(t)
	early, late, release := make(chan struct{}), make(chan struct{}, 100), make(chan struct{})
	up := newUpstream(t, func(n int, _ *http.Request) int {
		if n <= 8 {
			<-early
			return 200
		}
		late <- struct{}{}
		<-release
		return 200
	})
	other := newUpstream(t, always(200))
	with := func(n int) Settings {
		return settings(endpoint("a", up.url, func(ep *Endpoint) { ep.Concurrency = n }), endpoint("b", other.url))
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
	close(early)
	for _, id := range ids[:8] {
		s.untilState(t, id, event.Delivered)
	}
	<-late
	up.atOnce() // forgets the eight
	// What wakes the engine for one endpoint makes it look for due jobs of them all.
	s.untilState(t, accept(t, s, "x", lane("b"))[0], event.Delivered)
	s.set(func(w *watched) {
		if n := w.leased["src/a"]; n != 1 {
			t.Errorf("%d jobs are taken for the one slot that is left", n)
		}
	})
	close(release)
	for _, id := range ids {
		s.untilState(t, id, event.Delivered)
	}
	if most, _ := up.atOnce(); most != 1 || len(up.got()) != 30 {
		t.Errorf("%d requests for 30 jobs, %d at once in the one slot that is left", len(up.got()), most)
	}
}
