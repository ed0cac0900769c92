package worker

import (
	"context"
	"time"
)

// cutTime is how long Drain and Stop go on after attempts were cut, to write down what came of them. A service manager
// kills soon after the drain timeout.
const cutTime = 750 * time.Millisecond

// Drain stops claiming and waits for the attempts under way, until ctx ends or the ruling settings' drain timeout is
// over. What then still runs is cut: given back if surely nothing was sent, else written down as interrupted and pending
// again. It returns when all outcomes are written, or soon after ctx's end if the store does not take them; the jobs
// then come back when their leases run out. The engine stays idle until the next Attach.
func (e *Engine) Drain(ctx context.Context) {
	if r := e.rules(); r != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.DrainTimeout)
		defer cancel()
	}
	e.setDraining()
	if !e.awaitQuiet(ctx) {
		e.cutAll(context.WithoutCancel(ctx))
	}
}

// Stop ends everything and waits for it. Attempts under way are cut as Drain does it; call Drain first to let them
// finish. ctx bounds the writing of outcomes. A second call does no harm.
func (e *Engine) Stop(ctx context.Context) {
	e.mu.Lock()
	e.stopped = true
	e.mu.Unlock()
	e.setDraining()
	e.cutAll(ctx)
	e.endLoops()
	e.endWrites()
	e.wg.Wait()
}

func (e *Engine) setDraining() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.draining = true
}

// cutAll ends the attempts under way and gives their outcomes a moment to be written.
func (e *Engine) cutAll(ctx context.Context) {
	e.mu.Lock()
	for _, h := range e.jobs {
		h.cut()
	}
	e.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, cutTime)
	defer cancel()
	e.awaitQuiet(ctx)
}

// awaitQuiet waits until nothing is claimed, sent or to be written, and returns false when ctx ended first.
func (e *Engine) awaitQuiet(ctx context.Context) bool {
	stop := context.AfterFunc(ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.quiet.Broadcast()
	})
	defer stop()
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.jobs) > 0 || e.claiming {
		if ctx.Err() != nil {
			return false
		}
		e.quiet.Wait()
	}
	return true
}
