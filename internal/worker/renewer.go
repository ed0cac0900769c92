package worker

import (
	"context"
	"time"

	"github.com/caddy-anvil/anvil/internal/store"
)

// renew keeps the leases of all held jobs alive: those of slow endpoints, and those whose outcome the store does not
// take at the moment.
func (e *Engine) renew() {
	timer := time.NewTimer(e.every.Renew)
	defer timer.Stop()
	for {
		select {
		case <-e.loops.Done():
			return
		case <-timer.C:
		}
		next := e.every.Renew
		if err := e.renewAll(); err != nil {
			e.complain("renewing leases", err)
			next /= 5 // there is time for some more tries before the leases run out
		}
		timer.Reset(next)
	}
}

func (e *Engine) renewAll() error {
	e.mu.Lock()
	leases := make([]store.Lease, 0, len(e.jobs))
	for l := range e.jobs {
		leases = append(leases, l)
	}
	e.mu.Unlock()
	if len(leases) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(e.loops, e.every.Renew)
	defer cancel()
	lost, err := e.store.Renew(ctx, leases, e.every.Lease)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range lost {
		// A job whose outcome was written in the meantime is lost to the renewal and not held any more.
		if h, ok := e.jobs[l]; ok {
			h.lost = true
			h.cut()
		}
	}
	return nil
}
