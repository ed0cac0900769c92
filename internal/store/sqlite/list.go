package sqlite

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"zombiezen.com/go/sqlite"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// Jobs implements store.Store. A page with a state, queue, source or endpoint reads the heads of the lanes' own index
// and merges them, so that three dead jobs are found at once among a million delivered ones.
//
// A cursor is the sequence number that the next page starts below: times are unique and grow with it, so the order by
// (time, id) is the order by number.
func (s *Store) Jobs(ctx context.Context, f store.JobFilter) (jobs []event.Job, next string, err error) {
	below, err := store.ParseCursor(f.Cursor)
	if err != nil {
		return nil, "", err
	}
	err = s.read(ctx, func(c *sqlite.Conn) error {
		p := page{below: below, room: f.Limit, scan: store.PageScan}
		for p.more() {
			seqs, err := s.jobNumbers(c, &f, p.below, min(p.scan, max(f.Limit, minChunk)))
			if err != nil {
				return err
			}
			for _, seq := range seqs {
				if !p.look(seq) {
					break
				}
				err := query(c, selectJob+" WHERE j.seq = ?+0", func(r *sqlite.Stmt) error {
					if job := scanJob(r); !job.Pruned && f.Match(&job) {
						jobs = append(jobs, job)
						p.room--
					}
					return nil
				}, seq)
				if err != nil {
					return err
				}
			}
			p.done = p.done || len(seqs) == 0
		}
		next = p.next()
		return nil
	})
	return jobs, next, err
}

// minChunk is how many entries a page reads at a time at least.
const minChunk = 64

// page walks down the sequence until it is full, has looked at enough entries, or has come to the end.
type page struct {
	below int64
	room  int
	scan  int
	done  bool
}

func (p *page) more() bool { return !p.done && p.room > 0 && p.scan > 0 }

// look steps on one entry; false means that the page ends before it.
func (p *page) look(seq int64) bool {
	if p.room == 0 || p.scan == 0 {
		return false
	}
	p.scan--
	p.below = seq
	return true
}

func (p *page) next() string {
	if p.done || p.below <= 1 {
		return ""
	}
	return store.FormatCursor(p.below)
}

// jobNumbers finds the next n candidates below a number, newest first.
func (s *Store) jobNumbers(c *sqlite.Conn, f *store.JobFilter, below int64, n int) ([]int64, error) {
	var seqs []int64
	add := func(r *sqlite.Stmt) error { seqs = append(seqs, r.ColumnInt64(0)); return nil }
	if f.State == nil && f.Queue == "" && f.Source == "" && f.Endpoint == "" {
		err := query(c, "SELECT seq FROM jobs WHERE seq < ? ORDER BY seq DESC LIMIT ?", add, below, n)
		return seqs, err
	}
	lanes, running := s.lanesOf(f)
	if f.State != nil && *f.State == event.Running {
		seqs = running
	} else {
		states := countedStates
		if f.State != nil {
			states = []event.State{*f.State}
		}
		for _, l := range lanes {
			for _, st := range states {
				err := query(c, "SELECT seq FROM jobs INDEXED BY jobs_list WHERE lane = ?+0 AND state = ?+0 AND pruned = 0 AND seq < ?+0 ORDER BY seq DESC LIMIT ?+0",
					add, l, counted(st), below, n)
				if err != nil {
					return nil, err
				}
			}
		}
	}
	seqs = slices.DeleteFunc(seqs, func(seq int64) bool { return seq >= below })
	slices.SortFunc(seqs, func(a, b int64) int { return cmp.Compare(b, a) })
	return seqs[:min(n, len(seqs))], nil
}

// lanesOf selects lanes, and the jobs that run in them.
func (s *Store) lanesOf(f *store.JobFilter) (lanes, running []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	match := func(l *lane) bool {
		return (f.Queue == "" || f.Queue == l.Queue) && (f.Endpoint == "" || f.Endpoint == l.Endpoint) &&
			(f.Source == "" || f.Source == store.SourceOf(l.Endpoint))
	}
	for _, l := range s.lanes {
		if match(l) {
			lanes = append(lanes, l.id)
		}
	}
	for _, l := range s.leases {
		if match(l.lane) {
			running = append(running, l.seq)
		}
	}
	return lanes, running
}

var errPageFull = errors.New("page full")

// Events implements store.Store.
func (s *Store) Events(ctx context.Context, f store.EventFilter) (events []event.Event, next string, err error) {
	below, err := store.ParseCursor(f.Cursor)
	if err != nil {
		return nil, "", err
	}
	err = s.read(ctx, func(c *sqlite.Conn) error {
		p := page{below: below, room: f.Limit, scan: store.PageScan}
		err := query(c, "SELECT "+eventColumns+" FROM events e WHERE seq < ? ORDER BY seq DESC LIMIT ?", func(r *sqlite.Stmt) error {
			if !p.look(r.ColumnInt64(0)) {
				return errPageFull
			}
			if e := scanEvent(r); !r.ColumnBool(colPruned) && f.Match(&e) {
				events = append(events, e)
				p.room--
			}
			return nil
		}, below, store.PageScan+1)
		p.done = err == nil
		next = p.next()
		if errors.Is(err, errPageFull) {
			return nil
		}
		return err
	})
	return events, next, err
}
