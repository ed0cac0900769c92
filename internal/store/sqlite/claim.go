package sqlite

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// Claim implements store.Store.
func (s *Store) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	var answer store.Claimed
	err := s.do(ctx, false, func(t *tx) error {
		answer = store.Claimed{}
		again, err := t.claimedBy(c, &answer)
		if err != nil || again {
			return err
		}
		for _, ln := range c.Lanes {
			if err := t.claimLane(ln, c, &answer); err != nil {
				return err
			}
		}
		return nil
	})
	return answer, err
}

// claimedBy repeats the answer of a claim that was sent before. Its caller begins only now, so do the leases.
func (t *tx) claimedBy(c store.Claim, answer *store.Claimed) (bool, error) {
	var again []*lease
	for _, l := range t.w.s.leases {
		if l.token == c.Token && !t.ended(l) {
			again = append(again, l)
		}
	}
	for _, l := range t.leased { // sent twice within this transaction
		if l.token == c.Token && !t.ended(l) {
			again = append(again, l)
		}
	}
	for _, l := range again {
		if err := t.loadClaimed(l.seq, answer); err != nil {
			return false, err
		}
	}
	t.w.s.mu.Lock()
	defer t.w.s.mu.Unlock()
	for _, l := range again {
		l.until = t.elapsed + c.Lease.Microseconds()
	}
	return len(again) > 0, nil
}

func (t *tx) claimLane(ln store.Lane, c store.Claim, answer *store.Claimed) error {
	l := t.w.s.byName[ln.LaneID]
	if l == nil || t.unfinishedIn(l) == 0 { // most lanes are empty most of the time
		return nil
	}
	type due struct {
		seq     int64
		attempt int
		job     event.ID
	}
	var take []due
	err := t.query("SELECT seq, id, attempts, due FROM jobs INDEXED BY jobs_due WHERE lane = ?+0 AND state = 0 AND leased = 0 ORDER BY due, seq LIMIT ?+0",
		func(r *sqlite.Stmt) error {
			at := r.ColumnInt64(3)
			if at <= t.now && len(take) < ln.Max {
				take = append(take, due{r.ColumnInt64(0), r.ColumnInt(2) + 1, columnID(r, 1)})
				return nil
			}
			if at <= t.now {
				answer.More = true
			}
			// The clock that decides has microseconds, so "due now" is the smallest wait rather than none.
			wait := max(time.Duration(at-t.now)*time.Microsecond, time.Microsecond)
			if answer.Next == 0 || wait < answer.Next {
				answer.Next = wait
			}
			return nil
		}, l.id, ln.Max+1)
	if err != nil {
		return err
	}
	for _, d := range take {
		err := t.exec("UPDATE jobs SET leased = 1, attempts = ?, token = ?, claimed = ? WHERE seq = ?", d.attempt, c.Token, t.now, d.seq)
		if err != nil {
			return err
		}
		t.leased = append(t.leased, &lease{
			job: d.job, seq: d.seq, lane: l, token: c.Token, attempt: d.attempt, since: t.now, until: t.elapsed + c.Lease.Microseconds(),
		})
		if err := t.loadClaimed(d.seq, answer); err != nil {
			return err
		}
	}
	return nil
}

// loadClaimed adds a leased job with all that is needed to send it.
func (t *tx) loadClaimed(seq int64, answer *store.Claimed) error {
	var cj store.ClaimedJob
	var ev int64
	err := t.query(selectJob+" WHERE j.seq = ?+0", func(r *sqlite.Stmt) error {
		cj.Job, ev = scanJob(r), r.ColumnInt64(colJobEvent)
		return nil
	}, seq)
	if err != nil {
		return err
	}
	err = t.query("SELECT "+eventColumns+", p.data FROM events e JOIN payloads p ON p.seq = e.seq WHERE e.seq = ?+0", func(r *sqlite.Stmt) error {
		cj.Event = scanEvent(r)
		cj.Event.Payload = blob(r, colEventNext)
		return nil
	}, ev)
	answer.Jobs = append(answer.Jobs, cj)
	return err
}

// Renew implements store.Store. A lease that ran out but was not recovered yet is still its holder's.
func (s *Store) Renew(ctx context.Context, leases []store.Lease, d time.Duration) ([]store.Lease, error) {
	var lost []store.Lease
	err := s.do(ctx, false, func(t *tx) error {
		lost = nil
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, want := range leases {
			if l := s.held(want); l != nil && !t.ended(l) {
				l.until = t.elapsed + d.Microseconds()
			} else {
				lost = append(lost, want)
			}
		}
		return nil
	})
	return lost, err
}

// held is the lease that want names, nil when it is no longer the caller's.
func (s *Store) held(want store.Lease) *lease {
	l := s.leases[want.Job]
	if l == nil || l.token != want.Token || l.attempt != want.Attempt {
		return nil
	}
	return l
}

// Release implements store.Store.
func (s *Store) Release(ctx context.Context, want store.Lease) (lost bool, err error) {
	err = s.do(ctx, false, func(t *tx) error {
		lost = false
		l := s.held(want)
		if l == nil || t.ended(l) {
			// Sent again: the first time gave the number back and kept the token.
			lost = true
			return t.query("SELECT 1 FROM jobs WHERE id = ? AND token = ? AND state = 0 AND leased = 0 AND attempts = ?",
				func(*sqlite.Stmt) error { lost = false; return nil }, want.Job, want.Token, want.Attempt-1)
		}
		t.free(l)
		t.wake = true
		return t.exec("UPDATE jobs SET leased = 0, attempts = attempts - 1, due = ? WHERE seq = ?", t.now, l.seq)
	})
	return lost, err
}

// free ends a lease at the commit.
func (t *tx) free(l *lease) { t.freed = append(t.freed, l.job) }

// ended tells whether this transaction has ended the lease already.
func (t *tx) ended(l *lease) bool {
	for _, id := range t.freed {
		if id == l.job {
			return true
		}
	}
	return false
}
