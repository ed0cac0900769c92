package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// limiter lets a number of log lines through each second and counts those that it leaves out: a dead endpoint with a
// long queue must not fill the disk with lines that all say the same.
type limiter struct {
	now   func() time.Time
	burst int

	mu    sync.Mutex
	since time.Time
	let   int
	left  int
}

func newLimiter(now func() time.Time, perSecond int) *limiter {
	return &limiter{now: now, burst: perSecond}
}

// allow reports whether a line may be written, and how many were left out before it.
func (l *limiter) allow() (ok bool, leftOut int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.now(); now.Sub(l.since) >= time.Second {
		l.since, l.let = now, 0
	}
	if l.let >= l.burst {
		l.left++
		return false, 0
	}
	l.let++
	leftOut, l.left = l.left, 0
	return true, leftOut
}

// flush returns how many lines were left out and not yet told.
func (l *limiter) flush() (leftOut int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	leftOut, l.left = l.left, 0
	return leftOut
}

func left(n int) zap.Field {
	if n == 0 {
		return zap.Skip()
	}
	return zap.Int("left_out", n)
}

func jobFields(j *event.Job, more ...zap.Field) []zap.Field {
	return append([]zap.Field{
		zap.Stringer("job_id", j.ID), zap.Stringer("event_id", j.EventID),
		zap.String("source", j.Source), zap.String("endpoint", j.Endpoint),
	}, more...)
}

func (e *Engine) logAttempt(h *held, f *store.Finish) {
	switch f.State {
	case event.Delivered:
		if c := e.log.Check(zap.DebugLevel, "delivered"); c != nil {
			c.Write(jobFields(&h.Job, zap.Int("attempt", f.Attempt), zap.Int("status", f.Row.Status), zap.Duration("duration", f.Row.Duration))...)
		}
	case event.Pending:
		if ok, n := e.failedLog.allow(); ok {
			e.log.Warn("attempt failed", jobFields(&h.Job, zap.Int("attempt", f.Attempt), zap.String("class", string(f.Row.Class)),
				zap.Int("status", f.Row.Status), zap.String("error", f.Row.Error), zap.String("next_retry", f.RetryIn.String()), left(n))...)
		}
	default: // dead, which has a line of its own
	}
}

func (e *Engine) logDead(j *event.Job, why event.Reason, more ...zap.Field) {
	if ok, n := e.deadLog.allow(); ok {
		e.log.Error("job is dead", jobFields(j, append(more, zap.String("reason", string(why)), left(n))...)...)
	}
}

func (e *Engine) warnLost(h *held, class event.Class) {
	if ok, n := e.failedLog.allow(); ok {
		e.log.Warn("lease was lost to another worker; the outcome of this attempt is dropped",
			jobFields(&h.Job, zap.Int("attempt", h.lease.Attempt), zap.String("class", string(class)), left(n))...)
	}
}

// complain logs that the store did not do what was asked, except while everything ends.
func (e *Engine) complain(doing string, err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, store.ErrClosed) {
		return
	}
	if ok, n := e.storeLog.allow(); ok {
		e.log.Error(doing+" failed; trying again", zap.Error(err), left(n))
	}
}

// flushLogs tells of left-out lines that no later line has told of.
func (e *Engine) flushLogs() {
	for what, l := range map[string]*limiter{"failed attempts": e.failedLog, "dead jobs": e.deadLog, "errors of the store": e.storeLog} {
		if n := l.flush(); n > 0 {
			e.log.Warn("lines about "+what+" were left out of the log", zap.Int("left_out", n))
		}
	}
}
