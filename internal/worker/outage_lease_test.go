package worker

import (
	"sync"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

func TestLeasesThatRunOutInAnOutageAreLeftToWhoHoldsThem(t *testing.T) {
	s := openStore(t)
	id := accept(t, s, "x", lane("a"))[0]
	l := claimByHand(t, s, lane("a"), 30*time.Second) // by another instance, which lives
	outage(s, store.ErrUnavailable, "recover", "check")
	off := settings(endpoint("a", "http://unused"))
	off.Workers = false
	start(t, s).Attach(off)
	s.until(t, "the outage goes on for some looks", func() bool { return s.count("recover")+s.count("check") > 2 })
	s.Advance(time.Minute)
	// The other one is not the first to notice that the store is back.
	looks, renewed := 0, sync.OnceFunc(func() {
		if lost, err := s.Store.Renew(t.Context(), []store.Lease{l}, 30*time.Second); err != nil || len(lost) > 0 {
			t.Errorf("the holder came too late: lost %v, %v", lost, err)
		}
	})
	s.set(func(w *watched) {
		w.before = nil // it is back
		w.after = func(call string) error {
			if call == "check" || call == "recover" {
				if looks++; looks > 1 {
					renewed()
				}
			}
			return nil
		}
	})
	s.untilNext(t, "recover")
	if j, ledger := s.job(t, id); j.State != event.Running || len(ledger) != 0 {
		t.Errorf("the job is %s with ledger %+v, want it running", j.State, ledger)
	}

	// One that does not come back has died.
	s.Advance(time.Minute)
	s.untilAttempts(t, id, 1)
}
