package sqlite

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

const (
	// pruneJobs and pruneKeys bound a step to a few milliseconds of the writer.
	pruneJobs = 100
	pruneKeys = 500
	// sweepPause is the rest between two walks over all keys.
	sweepPause = time.Minute
)

// Prune implements store.Store. Jobs are found by an index on their end. Expired keys are found by walking all keys in
// small pieces: an index on their end would cost every accept a further write.
func (s *Store) Prune(ctx context.Context, r store.Retention) (more bool, err error) {
	err = s.do(ctx, false, func(t *tx) error {
		room, err := t.pruneJobs(r)
		if err != nil {
			return err
		}
		swept, err := t.sweepKeys()
		more = room == 0 || swept
		return err
	})
	return more, err
}

// pruneJobs takes the payload and ledger of jobs whose retention is over, and returns how many more it could have.
func (t *tx) pruneJobs(r store.Retention) (room int, err error) {
	room = pruneJobs
	type gone struct{ seq, event int64 }
	for _, l := range t.w.s.lanes {
		keep, ok := r.Queues[l.Queue]
		if !ok {
			keep = r.Default
		}
		for _, st := range countedStates {
			if !st.Final() || l.counts[st] == 0 || room == 0 {
				continue
			}
			var jobs []gone
			err := t.query("SELECT seq, event FROM jobs INDEXED BY jobs_ended WHERE lane = ?+0 AND state = ?+0 AND ended > 0 AND pruned = 0 AND ended <= ?+0 ORDER BY ended LIMIT ?+0",
				func(r *sqlite.Stmt) error {
					jobs = append(jobs, gone{r.ColumnInt64(0), r.ColumnInt64(1)})
					return nil
				}, l.id, st, t.now-keep[st].Microseconds(), room)
			if err != nil {
				return 0, err
			}
			for _, j := range jobs {
				if err := t.pruneJob(j.seq, j.event, l, st); err != nil {
					return 0, err
				}
			}
			room -= len(jobs)
		}
	}
	return room, nil
}

func (t *tx) pruneJob(seq, ev int64, l *lane, st event.State) error {
	t.count(l, st, -1)
	if err := t.exec("UPDATE jobs SET pruned = 1, token = NULL, error = NULL WHERE seq = ?", seq); err != nil {
		return err
	}
	if err := t.exec("DELETE FROM attempts WHERE n > ? AND n < ?", attemptKey(seq, 0), attemptKey(seq+1, 0)); err != nil {
		return err
	}
	needed := false
	err := t.query("SELECT 1 FROM events e JOIN jobs j ON j.seq >= e.seq AND j.seq < e.seq + e.jobs AND j.event = e.seq "+
		"WHERE e.seq = ? AND j.pruned = 0 UNION ALL SELECT 1 FROM jobs WHERE event = ? AND replay_of IS NOT NULL AND pruned = 0 LIMIT 1",
		func(*sqlite.Stmt) error { needed = true; return nil }, ev, ev)
	if err != nil || needed {
		return err
	}
	if err := t.exec("DELETE FROM payloads WHERE seq = ?", ev); err != nil {
		return err
	}
	if err := t.exec("UPDATE events SET pruned = 1, type = NULL, provider_id = NULL WHERE seq = ?", ev); err != nil {
		return err
	}
	return t.dropSpent(ev)
}

// dropSpent removes an event and its jobs once retention has taken them and no key needs their ids.
func (t *tx) dropSpent(ev int64) error {
	jobs := int64(-1)
	err := t.query("SELECT jobs FROM events WHERE seq = ? AND pruned = 1 AND keys_until <= ?", func(r *sqlite.Stmt) error {
		jobs = r.ColumnInt64(0)
		return nil
	}, ev, t.now)
	if err != nil || jobs < 0 {
		return err
	}
	if err := t.exec("UPDATE sequence SET next = ?", t.seq); err != nil {
		return err
	}
	for _, q := range []string{
		"DELETE FROM jobs WHERE event = ? AND replay_of IS NOT NULL",
		"DELETE FROM events WHERE seq = ?",
	} {
		if err := t.exec(q, ev); err != nil {
			return err
		}
	}
	return t.exec("DELETE FROM jobs WHERE seq >= ? AND seq < ? AND event = ?", ev, ev+jobs, ev)
}

// sweepKeys looks at the next few keys and removes those that have ended. more means that so many had
// ended that the walk should go on at once.
func (t *tx) sweepKeys() (more bool, err error) {
	w := t.w
	// A clock that was set back must not stop the walks.
	if wait := w.swept - t.now; wait > 0 && wait <= sweepPause.Microseconds() {
		return false, nil
	}
	type key struct{ h, event int64 }
	var ended []key
	seen := 0
	last := w.sweepAt
	err = t.query("SELECT h, event, expires FROM keys WHERE h > ? ORDER BY h LIMIT ?", func(r *sqlite.Stmt) error {
		seen++
		last = r.ColumnInt64(0)
		if r.ColumnInt64(2) <= t.now {
			ended = append(ended, key{last, r.ColumnInt64(1)})
		}
		return nil
	}, w.sweepAt, pruneKeys)
	if err != nil {
		return false, err
	}
	for _, k := range ended {
		if err := t.exec("DELETE FROM keys WHERE h = ?", k.h); err != nil {
			return false, err
		}
		if err := t.dropSpent(k.event); err != nil {
			return false, err
		}
	}
	if seen < pruneKeys {
		w.sweepAt, w.swept = -1, t.now+sweepPause.Microseconds()
		return false, nil
	}
	w.sweepAt, w.swept = last, 0
	return len(ended) > pruneKeys/10, nil
}
