package sqlite

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// target is what an operator's change needs to know of a job.
type target struct {
	seq, event, lane int64
	state            event.State
	pruned           bool
}

func (t *tx) target(id event.ID) (target, error) {
	var g target
	err := t.query("SELECT seq, event, lane, state, leased, pruned FROM jobs WHERE id = ?", func(r *sqlite.Stmt) error {
		g = target{
			seq: r.ColumnInt64(0), event: r.ColumnInt64(1), lane: r.ColumnInt64(2),
			state: stateOf(r.ColumnInt64(3), r.ColumnBool(4)), pruned: r.ColumnBool(5),
		}
		return nil
	}, id)
	if err == nil && g.seq == 0 {
		err = refusal{store.ErrNotFound}
	}
	return g, err
}

// Cancel implements store.Store.
func (s *Store) Cancel(ctx context.Context, id event.ID) (bool, error) {
	cancelled := false
	err := s.do(ctx, true, func(t *tx) error {
		cancelled = false
		g, err := t.target(id)
		if err != nil || g.state != event.Pending {
			return err
		}
		cancelled = true
		return t.endLife(g.seq, t.laneAt(g.lane), outcome{state: event.Cancelled})
	})
	return cancelled, err
}

// Replay implements store.Store.
func (s *Store) Replay(ctx context.Context, id, newJob event.ID, force bool) (store.Replayed, error) {
	var answer store.Replayed
	err := s.do(ctx, true, func(t *tx) error {
		var err error
		answer, err = t.replay(id, newJob, force)
		return err
	})
	return answer, err
}

func (t *tx) replay(id, newJob event.ID, force bool) (store.Replayed, error) {
	g, err := t.target(id)
	if err != nil {
		return store.Replayed{}, err
	}
	again := false
	err = t.query("SELECT 1 FROM jobs WHERE id = ? AND replay_of = ?", func(*sqlite.Stmt) error { again = true; return nil }, newJob, id)
	switch {
	case err != nil:
		return store.Replayed{}, err
	case again:
		return store.Replayed{Replayed: true}, nil
	case g.pruned:
		return store.Replayed{State: g.state}, refusal{store.ErrPruned}
	case g.state == event.Dead, force && (g.state == event.Delivered || g.state == event.Replayed):
	default:
		return store.Replayed{State: g.state}, nil
	}
	l := t.laneAt(g.lane)
	created := t.stamp()
	err = t.exec("INSERT INTO jobs(seq, id, event, lane, state, created, due, replay_of) VALUES(?, ?, ?, ?, 0, ?, ?, ?)",
		t.seq, newJob, g.event, g.lane, created, t.now, id)
	if err != nil {
		return store.Replayed{}, err
	}
	t.seq++
	t.count(l, event.Pending, 1)
	t.wake = true
	if g.state == event.Dead {
		t.count(l, event.Dead, -1)
		t.count(l, event.Replayed, 1)
		err = t.exec("UPDATE jobs SET state = ?, ended = ? WHERE seq = ?", event.Replayed, t.now, g.seq)
	}
	return store.Replayed{Replayed: true}, err
}

// Configured implements store.Store.
func (s *Store) Configured(ctx context.Context, lanes []store.LaneID) error {
	return s.do(ctx, false, func(t *tx) error {
		if t.noted == nil { // another of this transaction may have noted some
			t.noted = make(map[*lane]int64, len(lanes))
		}
		for _, id := range lanes {
			l, err := t.lane(id)
			if err != nil {
				return err
			}
			t.noted[l] = t.now
			if err := t.exec("UPDATE lanes SET noted = ? WHERE id = ?", t.now, l.id); err != nil {
				return err
			}
		}
		return nil
	})
}

// Orphans implements store.Store.
func (s *Store) Orphans(ctx context.Context, after time.Duration, limit int) ([]event.Job, error) {
	var killed []event.Job
	err := s.do(ctx, false, func(t *tx) error {
		killed = nil
		before := t.now - after.Microseconds()
		for _, l := range s.lanes {
			if l.noted >= before || l.counts[event.Pending] == 0 || len(killed) >= limit {
				continue
			}
			var seqs []int64
			err := t.query("SELECT seq FROM jobs INDEXED BY jobs_due WHERE lane = ? AND state = 0 AND leased = 0 AND due < ? ORDER BY due, seq LIMIT ?",
				func(r *sqlite.Stmt) error { seqs = append(seqs, r.ColumnInt64(0)); return nil }, l.id, before, limit-len(killed))
			if err != nil {
				return err
			}
			for _, seq := range seqs {
				if err := t.endLife(seq, l, outcome{state: event.Dead, reason: event.ReasonNoEndpoint, err: errNoEndpoint}); err != nil {
					return err
				}
				job, err := t.job(seq)
				if err != nil {
					return err
				}
				killed = append(killed, job)
			}
		}
		return nil
	})
	return killed, err
}

const errNoEndpoint = "no configuration has this endpoint"
