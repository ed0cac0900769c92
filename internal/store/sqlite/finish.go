package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// Finish implements store.Store.
func (s *Store) Finish(ctx context.Context, f store.Finish) (lost bool, err error) {
	err = s.do(ctx, false, func(t *tx) error {
		lost = false
		l := s.held(f.Lease)
		if l == nil || t.ended(l) {
			lost = true
			return t.finishedBefore(f, &lost)
		}
		if err := t.writeAttempt(l.seq, f.Row); err != nil {
			return err
		}
		t.free(l)
		end := outcome{state: f.State, reason: f.Reason, err: f.Row.Error}
		if f.State == event.Pending {
			end.due = t.now + f.RetryIn.Microseconds()
		}
		if f.State != event.Delivered && !f.Uncounted {
			end.failed = 1
		}
		return t.endLife(l.seq, l.lane, end)
	})
	return lost, err
}

// finishedBefore finds the row that the first sending of this finish wrote. The job still has the token if nobody
// claimed it since; if somebody did, the caller's lease is over either way.
func (t *tx) finishedBefore(f store.Finish, lost *bool) error {
	var seq int64
	err := t.query("SELECT seq FROM jobs WHERE id = ? AND token = ? AND leased = 0", func(r *sqlite.Stmt) error {
		seq = r.ColumnInt64(0)
		return nil
	}, f.Job, f.Token)
	if err != nil || seq == 0 {
		return err
	}
	return t.query("SELECT class FROM attempts WHERE n = ?", func(r *sqlite.Stmt) error {
		*lost = event.Class(r.ColumnText(0)) == event.ClassLost
		return nil
	}, attemptKey(seq, f.Attempt))
}

// outcome is how a life ends.
type outcome struct {
	state  event.State
	due    int64 // for Pending
	reason event.Reason
	err    string
	failed int64 // added to failures
	lost   bool  // the life had no outcome of its own
}

// endLife moves a job from running to where its life ended.
func (t *tx) endLife(seq int64, l *lane, o outcome) error {
	ended := int64(0)
	if o.state == event.Pending {
		t.wake = true
	} else {
		ended, o.due = t.now, t.now
		t.count(l, event.Pending, -1)
		t.count(l, o.state, 1)
	}
	lives := "0"
	if o.lost {
		lives = "lost + 1"
	}
	return t.exec("UPDATE jobs SET state = ?, leased = 0, due = ?, ended = ?, failures = failures + ?, reason = ?, "+
		"error = coalesce(?, error), lost = "+lives+" WHERE seq = ?",
		o.state, o.due, ended, o.failed, orNull(string(o.reason)), orNull(o.err), seq)
}

const attemptBits = 16

func attemptKey(seq int64, number int) int64 {
	return seq<<attemptBits | int64(number&(1<<attemptBits-1))
}

func (t *tx) writeAttempt(seq int64, a event.Attempt) error {
	return t.exec("INSERT OR REPLACE INTO attempts(n, started, duration, status, class, error, snippet) VALUES(?, ?, ?, ?, ?, ?, ?)",
		attemptKey(seq, a.Number), a.StartedAt.UnixMicro(), a.Duration.Microseconds(), a.Status, string(a.Class), orNull(a.Error), orNull(a.Snippet))
}

// errLost is what the ledger says of a life that nobody finished.
const errLost = "the attempt was cut off before its outcome was known; the endpoint may have seen it"

// loseLife writes the row of a life that nobody finished, as of its claim, and gives the job back, or ends it after too
// many.
func (t *tx) loseLife(seq int64, l *lane, attempt, lost int, since int64, report *store.Recovered) error {
	row := event.Attempt{Number: attempt, StartedAt: micros(since), Class: event.ClassLost, Error: errLost}
	if err := t.writeAttempt(seq, row); err != nil {
		return err
	}
	o := outcome{state: event.Pending, due: t.now, err: errLost, lost: true}
	to := &report.Returned
	if lost+1 >= store.MaxLost {
		o.state, o.reason, to = event.Dead, event.ReasonCrashLoop, &report.Dead
	}
	if err := t.endLife(seq, l, o); err != nil {
		return err
	}
	job, err := t.job(seq)
	*to = append(*to, job)
	return err
}

// Recover implements store.Store.
func (s *Store) Recover(ctx context.Context) (store.Recovered, error) {
	if !s.anyExpired() {
		return store.Recovered{}, ctx.Err()
	}
	var answer store.Recovered
	err := s.do(ctx, false, func(t *tx) error {
		answer = store.Recovered{}
		for _, l := range s.leases {
			if l.until > t.elapsed || t.ended(l) {
				continue
			}
			t.free(l)
			job, err := t.job(l.seq)
			if err != nil {
				return err
			}
			if err := t.loseLife(l.seq, l.lane, l.attempt, job.Lost, l.since, &answer); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		answer.Returned = append(s.left.Returned, answer.Returned...)
		answer.Dead = append(s.left.Dead, answer.Dead...)
		s.left = store.Recovered{}
	}
	return answer, err
}

// anyExpired spares the usual call a transaction.
func (s *Store) anyExpired() bool {
	now := s.elapsed()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.leases {
		if l.until <= now {
			return true
		}
	}
	// A closed store is asked as well, so that do answers ErrClosed.
	return len(s.left.Returned)+len(s.left.Dead) > 0 || s.isClosed()
}

// endLeftLives ends what the last process had under way.
func (w *writer) endLeftLives() error {
	type life struct {
		seq, lane, since int64
		attempt, lost    int
	}
	var lives []life
	err := query(w.conn, "SELECT seq, lane, claimed, attempts, lost FROM jobs INDEXED BY jobs_due WHERE state = 0 AND leased = 1", func(r *sqlite.Stmt) error {
		lives = append(lives, life{r.ColumnInt64(0), r.ColumnInt64(1), r.ColumnInt64(2), r.ColumnInt(3), r.ColumnInt(4)})
		return nil
	})
	if err != nil || len(lives) == 0 {
		return err
	}
	o := &op{run: func(t *tx) error {
		w.s.left = store.Recovered{}
		for _, l := range lives {
			if err := t.loseLife(l.seq, w.s.lanes[l.lane-1], l.attempt, l.lost, l.since, &w.s.left); err != nil {
				return err
			}
		}
		return nil
	}}
	_, err = w.transact([]*op{o})
	return err
}
