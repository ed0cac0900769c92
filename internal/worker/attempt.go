package worker

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-anvil/anvil/internal/deliver"
	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// held is a job that this engine has claimed and whose outcome is not written yet.
type held struct {
	store.ClaimedJob
	lease store.Lease
	// endpoint is as it was configured at the claim; known is false when it was not, or had no workers.
	endpoint Endpoint
	known    bool

	cut  context.CancelFunc // ends the attempt
	lost bool               // guarded by the engine's mu: somebody else owns the job now
}

// run takes one job from its claim to its written outcome.
func (e *Engine) run(ctx context.Context, h *held) {
	defer e.drop(h)
	defer h.cut()
	if !h.known || e.isDraining() {
		e.release(h)
		return
	}
	res := e.send(ctx, h)
	if e.isLost(h) {
		e.slotFree(h)
		e.warnLost(h, res.Attempt.Class)
		return
	}
	if res.Attempt.Class == event.ClassInterrupted && !res.Sent {
		e.release(h)
		return
	}
	e.finish(h, res)
}

// send makes the attempt. A panic in it is a failed attempt, not the end of Caddy.
func (e *Engine) send(ctx context.Context, h *held) (res deliver.Result) {
	started := e.now()
	defer func() {
		if p := recover(); p != nil {
			e.log.Error("delivering panicked; this is a bug", zap.Any("panic", p), zap.Stack("stack"), zap.Stringer("job_id", h.Job.ID))
			res = deliver.Result{Sent: true, Attempt: event.Attempt{
				Number: h.lease.Attempt, StartedAt: started, Duration: e.now().Sub(started),
				Class: event.ClassConfig, Error: "internal error while delivering; the log has the details",
			}}
		}
	}()
	return e.client.Send(ctx, deliver.Request{
		Event: h.Event, Job: h.Job, Attempt: h.lease.Attempt,
		Target: deliver.Target{URL: h.endpoint.URL, Timeout: h.endpoint.Timeout},
	})
}

// finish decides what the result means for the job and writes it.
func (e *Engine) finish(h *held, res deliver.Result) {
	f := decide(h, res, e.rand)
	e.observer.Attempt(h.Job.Source, h.Job.Endpoint, f.Row.Class)
	e.logAttempt(h, &f)
	e.settle(h, func(ctx context.Context) (bool, error) { return e.store.Finish(ctx, f) }, func() {
		if f.State == event.Dead {
			e.observer.Dead(h.Job.Source, h.Job.Endpoint, f.Reason)
			e.logDead(&h.Job, f.Reason, zap.Int("attempt", f.Attempt), zap.String("class", string(f.Row.Class)),
				zap.Int("status", f.Row.Status), zap.String("error", f.Row.Error))
		}
	})
}

// decide turns the result of an attempt into the end of the job's life.
func decide(h *held, res deliver.Result, rnd func() float64) store.Finish {
	f := store.Finish{Lease: h.lease, Row: res.Attempt}
	f.Row.Number = h.lease.Attempt
	switch {
	case res.Attempt.Class == event.ClassDelivered:
		f.State = event.Delivered
	case res.Attempt.Class == event.ClassInterrupted:
		// Our own shutdown is no failure of the endpoint.
		f.State, f.Uncounted = event.Pending, true
	case res.Gone:
		f.State, f.Reason = event.Dead, event.ReasonGone
	default:
		delay, ok := h.endpoint.Retry.Next(h.Job.Failures+1, res.RetryAfter, rnd)
		if ok {
			f.State, f.RetryIn = event.Pending, delay
		} else {
			f.State, f.Reason = event.Dead, event.ReasonAttempts
		}
	}
	return f
}

func (e *Engine) release(h *held) {
	e.settle(h, func(ctx context.Context) (bool, error) { return e.store.Release(ctx, h.lease) }, nil)
}

// settle gives the slot back and writes an outcome, for as long as it takes. then runs when it is written.
func (e *Engine) settle(h *held, write func(context.Context) (lost bool, err error), then func()) {
	select {
	case e.unwritten <- struct{}{}:
	case <-e.writing.Done():
		e.slotFree(h)
		return
	}
	defer func() { <-e.unwritten }()
	e.slotFree(h)
	for trouble := (backoff{}); ; {
		lost, err := write(e.writing)
		switch {
		case err == nil && lost:
			e.warnLost(h, "")
			return
		case err == nil:
			if then != nil {
				then()
			}
			return
		}
		e.complain("writing the outcome of an attempt", err)
		if !trouble.wait(e.writing) {
			return
		}
	}
}

func (e *Engine) slotFree(h *held) {
	e.mu.Lock()
	if e.busy[h.Job.Endpoint]--; e.busy[h.Job.Endpoint] <= 0 {
		delete(e.busy, h.Job.Endpoint)
	}
	e.mu.Unlock()
	signal(e.freed)
}

func (e *Engine) drop(h *held) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.jobs, h.lease)
	e.quiet.Broadcast()
}

func (e *Engine) isLost(h *held) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return h.lost
}

func (e *Engine) isDraining() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.draining
}

// backoff waits a little longer after each failure, from 50ms to 2s.
type backoff struct{ times int }

// wait returns false when ctx ended first.
func (b *backoff) wait(ctx context.Context) bool {
	d := min(50*time.Millisecond<<min(b.times, 6), 2*time.Second)
	b.times++
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
