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
	up, other := newUpstream(t, always(200)), newUpstream(t, always(200))
	const slots, most, looks = 8, maxUnwritten + 8, 3
	seen := &recorder{}
	e := start(t, s, func(c *Config) { c.Observer = seen })
	with := func(n int) func(*Endpoint) { return func(ep *Endpoint) { ep.Concurrency = n } }
	e.Attach(settings(endpoint("a", up.url, with(slots)), endpoint("b", other.url, with(looks))))
	var ids []event.ID
	for range most + 50 {
		ids = append(ids, accept(t, s, "x", lane("a"))[0])
	}
	// Each of them is about to give up its slot, and only as many as outcomes are kept may do it.
	s.until(t, "all that may be sent have an outcome", func() bool { return seen.attempted(event.ClassDelivered) >= most })
	for n := range looks {
		ids = append(ids, accept(t, s, "x", lane("b"))[0])
		s.until(t, "the engine has looked around", func() bool { return seen.attempted(event.ClassDelivered) >= most+n+1 })
	}
	e.mu.Lock()
	if e.busy["src/a"] != slots || len(e.unwritten) != maxUnwritten {
		t.Errorf("%d slots are taken and %d outcomes kept, want %d and %d", e.busy["src/a"], len(e.unwritten), slots, maxUnwritten)
	}
	e.mu.Unlock()
	if n := len(up.got()); n != most {
		t.Errorf("%d requests with %d outcomes to be kept, want %d", n, maxUnwritten, most)
	}
	end()
	for _, id := range ids {
		s.untilState(t, id, event.Delivered)
	}
	if n := len(up.got()) + len(other.got()); n != len(ids) {
		t.Errorf("%d requests for %d jobs", n, len(ids))
	}
}
