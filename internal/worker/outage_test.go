package worker

import (
	"testing"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// outage makes the named calls fail until the returned function ends it.
func outage(s *watched, err error, calls ...string) (end func()) {
	bad := map[string]bool{}
	for _, c := range calls {
		bad[c] = true
	}
	s.set(func(w *watched) {
		w.before = func(call string) error {
			if bad[call] {
				return err
			}
			return nil
		}
	})
	return func() { s.set(func(w *watched) { w.before = nil }) }
}

func TestEngineRecoversByItselfWhenTheStoreWasAway(t *testing.T) {
	s := openStore(t)
	end := outage(s, store.ErrUnavailable, "claim", "finish", "release", "renew", "recover", "configured", "orphans", "prune")
	up := newUpstream(t, always(200))
	e := start(t, s)
	longRunning(e)
	e.Attach(settings(endpoint("a", up.url)))
	id := accept(t, s, "x", lane("a"))[0]
	s.until(t, "the engine has tried a few times", func() bool { return s.count("claim") >= 3 && s.count("recover") >= 3 })
	end()
	s.untilState(t, id, event.Delivered)
	s.until(t, "the lanes are noted", func() bool { return s.count("orphans") > 0 })
}

func TestSlotIsFreeWhenItsOutcomeWaitsToBeWritten(t *testing.T) {
	s := openStore(t)
	end := outage(s, store.ErrUnavailable, "finish")
	up := newUpstream(t, always(200))
	start(t, s).Attach(settings(endpoint("a", up.url, func(ep *Endpoint) { ep.Concurrency = 1 })))
	var ids []event.ID
	for range 10 {
		ids = append(ids, accept(t, s, "x", lane("a"))[0])
	}
	s.until(t, "all were sent", func() bool { return len(up.got()) == len(ids) })
	end()
	for _, id := range ids {
		s.untilState(t, id, event.Delivered)
	}
	if n := len(up.got()); n != len(ids) {
		t.Errorf("%d requests for %d jobs", n, len(ids))
	}
}

func TestStoreThatTakesNoOutcomesStopsTheDeliveries(t *testing.T) {
	s := openStore(t)
	end := outage(s, store.ErrUnavailable, "finish")
	up := newUpstream(t, always(200))
	const slots = 8
	e := start(t, s)
	e.Attach(settings(endpoint("a", up.url, func(ep *Endpoint) { ep.Concurrency = slots })))
	var ids []event.ID
	for range maxUnwritten + slots + 50 {
		ids = append(ids, accept(t, s, "x", lane("a"))[0])
	}
	s.until(t, "outcomes and slots are full", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return len(e.unwritten) == maxUnwritten && e.busy["src/a"] == slots
	})
	s.until(t, "the engine has looked around", func() bool { return len(up.got()) >= maxUnwritten+slots })
	if n := len(up.got()); n != maxUnwritten+slots {
		t.Errorf("%d requests with %d outcomes to be kept, want %d", n, maxUnwritten, maxUnwritten+slots)
	}
	end()
	for _, id := range ids {
		s.untilState(t, id, event.Delivered)
	}
	if n := len(up.got()); n != len(ids) {
		t.Errorf("%d requests for %d jobs", n, len(ids))
	}
}
