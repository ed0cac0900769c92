package worker

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

const (
	// orphansAtOnce bounds one step of killing orphans.
	orphansAtOnce = 100
	// orphanGrace is the time that other instances have to say which lanes they know, when all come back from an outage
	// that was longer than orphan_after.
	orphanGrace = 10 * time.Minute
)

// janitor is the loop that keeps the store in order: lives that were lost, lanes, orphans, retention. Its fields are its own.
type janitor struct {
	*Engine
	// away is true from the moment the store does not answer until lives are recovered again, and back is when it was seen
	// to answer in the meantime.
	away bool
	back time.Time
}

func (e *Engine) keep() {
	j := janitor{Engine: e}
	lives := time.NewTicker(e.every.Recover)
	defer lives.Stop()
	house := time.NewTicker(e.every.House)
	defer house.Stop()
	prune := time.NewTicker(e.every.Prune)
	defer prune.Stop()
	j.recoverLives()
	for {
		select {
		case <-e.loops.Done():
			return
		case <-lives.C:
			j.recoverLives()
			e.flushLogs()
		case <-prune.C:
			e.prune()
		case <-house.C:
			e.keepHouse(house)
		case <-e.refresh:
			e.keepHouse(house)
		}
	}
}

func (j *janitor) recoverLives() {
	// After the process was stopped for longer than a lease, our own leases have run out with their attempts still under
	// way. Whatever we hold is renewed first, so that only what nobody holds is recovered.
	if err := j.renewAll(); err != nil {
		j.storeAway()
		j.complain("renewing leases", err)
		return
	}
	if !j.othersAreBack() {
		return
	}
	got, err := j.store.Recover(j.loops) // with an error it may have done a part
	if err != nil {
		// One life that cannot be recovered must not delay all others.
		if errors.Is(j.store.Check(j.loops), store.ErrUnavailable) {
			j.storeAway()
		}
		j.complain("recovering lost attempts", err)
	}
	lost := slices.Concat(got.Returned, got.Dead)
	for i := range lost {
		j.observer.Attempt(lost[i].Source, lost[i].Endpoint, event.ClassLost)
	}
	if len(lost) > 0 {
		j.log.Warn("attempts ended without an outcome, in a crash or because their leases ran out; the endpoint may have seen them",
			zap.Int("attempts", len(lost)), zap.Int("jobs_that_run_again", len(got.Returned)))
	}
	j.died(got.Dead)
}

func (j *janitor) storeAway() { j.away, j.back = true, time.Time{} }

// othersAreBack is false for a while after the store was away. The leases of all instances may have run out meanwhile, and
// each tries every two seconds to renew its own and to write what came of its attempts. To end those lives first would
// repeat what is delivered already.
func (j *janitor) othersAreBack() bool {
	switch {
	case !j.away:
		return true
	case errors.Is(j.store.Check(j.loops), store.ErrUnavailable):
		j.storeAway()
		return false
	case j.back.IsZero():
		j.back = time.Now()
		return false
	}
	j.away = time.Since(j.back) < j.every.Recover/2 // the next look, unless it comes late after this one
	return !j.away
}

func (e *Engine) died(jobs []event.Job) {
	for i := range jobs {
		j := &jobs[i]
		e.observer.Dead(j.Source, j.Endpoint, j.DeadReason)
		e.logDead(j, j.DeadReason, zap.Int("attempt", j.Attempts), zap.String("error", j.LastError))
	}
}

func (e *Engine) keepHouse(tick *time.Ticker) {
	next := e.every.House
	if r := e.rules(); r != nil && r.OrphanAfter > 0 {
		// Another instance kills what nobody has noted for so long.
		next = min(next, max(r.OrphanAfter/3, e.every.Poll))
	}
	if err := e.house(); err != nil {
		e.complain("noting which endpoints are configured", err)
		next = min(next, e.every.Recover)
	}
	tick.Reset(next)
}

func (e *Engine) house() error {
	r := e.rules()
	if r == nil {
		return nil
	}
	stats, err := e.store.Stats(e.loops)
	if err != nil {
		return err
	}
	e.warnUnrouted(r, stats.Lanes)
	left := r.leftLanes(stats.Lanes)
	r = e.serve(r, left)
	// First say what is configured, lanes that endpoints have left included, or the jobs in them would count as orphans.
	if err := e.store.Configured(e.loops, r.lanes); err != nil {
		return err
	}
	if !r.Workers || r.OrphanAfter <= 0 || time.Since(e.began) < min(r.OrphanAfter, orphanGrace) {
		return nil
	}
	for {
		killed, err := e.store.Orphans(e.loops, r.OrphanAfter, orphansAtOnce)
		if err != nil {
			return err
		}
		e.died(killed)
		if len(killed) < orphansAtOnce {
			return nil
		}
	}
}

// warnUnrouted warns once for each attached settings.
func (e *Engine) warnUnrouted(r *ruling, lanes []store.LaneStats) {
	e.mu.Lock()
	tell := e.tellUnrouted && e.ruling == r
	if tell {
		e.tellUnrouted = false
	}
	e.mu.Unlock()
	if !tell {
		return
	}
	var names []string
	for i := range lanes {
		if n := unrouted(r, lanes[i:i+1]); n > 0 && !slices.Contains(names, lanes[i].Endpoint) {
			names = append(names, lanes[i].Endpoint)
		}
	}
	if len(names) > 0 {
		e.log.Warn("pending jobs belong to endpoints that are not configured; they wait for them, and are dead after orphan_after",
			zap.Int64("jobs", unrouted(r, lanes)), zap.Strings("endpoints", names[:min(len(names), 20)]),
			zap.String("orphan_after", r.OrphanAfter.String()))
	}
}

// prune works for at most half of the time, in small steps, so that accepting and claiming come in between.
func (e *Engine) prune() {
	r := e.rules()
	if r == nil {
		return
	}
	ctx, cancel := context.WithTimeout(e.loops, e.every.Prune/2)
	defer cancel()
	for more := true; more && ctx.Err() == nil; {
		var err error
		if more, err = e.store.Prune(e.loops, r.Retention); err != nil {
			e.complain("pruning", err)
			return
		}
	}
}

func unfinished(l *store.LaneStats) int64 { return l.Jobs[event.Pending] + l.Jobs[event.Running] }
