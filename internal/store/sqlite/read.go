package sqlite

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// selectJob is read by scanJob.
const selectJob = "SELECT j.seq, j.event, j.id, e.id, e.source, e.tenant, e.type, e.provider_id, l.queue, l.endpoint, j.state, j.leased, " +
	"j.created, j.due, j.ended, j.attempts, j.failures, j.lost, j.reason, j.error, j.replay_of, j.pruned " +
	"FROM jobs j JOIN events e ON e.seq = j.event JOIN lanes l ON l.id = j.lane"

const (
	colJobSeq   = 0
	colJobEvent = 1
)

func scanJob(r *sqlite.Stmt) event.Job {
	return event.Job{
		ID: columnID(r, 2), EventID: columnID(r, 3), Source: r.ColumnText(4), Tenant: r.ColumnText(5),
		EventType: r.ColumnText(6), ProviderID: r.ColumnText(7), Queue: r.ColumnText(8), Endpoint: r.ColumnText(9),
		State:     stateOf(r.ColumnInt64(10), r.ColumnBool(11)),
		CreatedAt: micros(r.ColumnInt64(12)), RunAt: micros(r.ColumnInt64(13)), EndedAt: micros(r.ColumnInt64(14)),
		Attempts: r.ColumnInt(15), Failures: r.ColumnInt(16), Lost: r.ColumnInt(17),
		DeadReason: event.Reason(r.ColumnText(18)), LastError: r.ColumnText(19), ReplayOf: columnID(r, 20), Pruned: r.ColumnBool(21),
	}
}

func stateOf(state int64, leased bool) event.State {
	if leased {
		return event.Running
	}
	return event.State(state) //nolint:gosec // written from event.State
}

const (
	eventColumns = "e.seq, e.id, e.source, e.tenant, e.type, e.provider_id, e.verified, e.accepted, e.keys, e.pruned"
	colPruned    = 9
	colEventNext = 10
)

func scanEvent(r *sqlite.Stmt) event.Event {
	return event.Event{
		Seq: r.ColumnInt64(0), ID: columnID(r, 1), Source: r.ColumnText(2), Tenant: r.ColumnText(3), Type: r.ColumnText(4),
		ProviderID: r.ColumnText(5), Verified: r.ColumnBool(6), AcceptedAt: micros(r.ColumnInt64(7)), Keys: keysOf(blob(r, 8)),
	}
}

// job reads a job in a transaction of the writer.
func (t *tx) job(seq int64) (event.Job, error) {
	var job event.Job
	err := t.query(selectJob+" WHERE j.seq = ?+0", func(r *sqlite.Stmt) error { job = scanJob(r); return nil }, seq)
	return job, err
}

// Job implements store.Store.
func (s *Store) Job(ctx context.Context, id event.ID) (event.Job, []event.Attempt, error) {
	var job event.Job
	var ledger []event.Attempt
	err := s.read(ctx, func(c *sqlite.Conn) error {
		seq := int64(0)
		err := query(c, selectJob+" WHERE j.id = ?", func(r *sqlite.Stmt) error {
			job, seq = scanJob(r), r.ColumnInt64(colJobSeq)
			return nil
		}, id)
		switch {
		case err != nil:
			return err
		case seq == 0:
			return store.ErrNotFound
		case job.Pruned:
			return store.ErrPruned
		}
		return query(c, "SELECT n, started, duration, status, class, error, snippet FROM attempts WHERE n > ? AND n < ? ORDER BY n",
			func(r *sqlite.Stmt) error {
				ledger = append(ledger, event.Attempt{
					Number: int(r.ColumnInt64(0) & (1<<attemptBits - 1)), StartedAt: micros(r.ColumnInt64(1)),
					Duration: time.Duration(r.ColumnInt64(2)) * time.Microsecond, Status: r.ColumnInt(3),
					Class: event.Class(r.ColumnText(4)), Error: r.ColumnText(5), Snippet: r.ColumnText(6),
				})
				return nil
			}, attemptKey(seq, 0), attemptKey(seq+1, 0))
	})
	return job, ledger, err
}

// Event implements store.Store.
func (s *Store) Event(ctx context.Context, id event.ID) (event.Event, []event.Job, error) {
	var e event.Event
	var jobs []event.Job
	err := s.read(ctx, func(c *sqlite.Conn) error {
		pruned := false
		var n int64
		err := query(c, "SELECT "+eventColumns+", e.jobs FROM events e WHERE e.id = ?", func(r *sqlite.Stmt) error {
			e, pruned, n = scanEvent(r), r.ColumnBool(colPruned), r.ColumnInt64(colEventNext)
			return nil
		}, id)
		switch {
		case err != nil:
			return err
		case e.Seq == 0:
			return store.ErrNotFound
		case pruned:
			return store.ErrPruned
		}
		found := false
		err = query(c, "SELECT data FROM payloads WHERE seq = ?", func(r *sqlite.Stmt) error {
			e.Payload, found = blob(r, 0), true
			return nil
		}, e.Seq)
		if err != nil {
			return err
		}
		if !found { // retention came between the two reads
			return store.ErrPruned
		}
		add := func(r *sqlite.Stmt) error { jobs = append(jobs, scanJob(r)); return nil }
		if err := query(c, selectJob+" WHERE j.seq >= ? AND j.seq < ? AND j.event = ? ORDER BY j.seq", add, e.Seq, e.Seq+n, e.Seq); err != nil {
			return err
		}
		return query(c, selectJob+" WHERE j.event = ? AND j.replay_of IS NOT NULL ORDER BY j.seq", add, e.Seq)
	})
	return e, jobs, err
}

// Stats implements store.Store.
func (s *Store) Stats(ctx context.Context) (store.Stats, error) {
	var st store.Stats
	ids := s.laneStats(&st)
	err := s.read(ctx, func(c *sqlite.Conn) error {
		for i := range st.Lanes {
			err := query(c, "SELECT created FROM jobs INDEXED BY jobs_list WHERE lane = ?+0 AND state = 0 AND pruned = 0 AND leased = 0 ORDER BY seq LIMIT 1",
				func(r *sqlite.Stmt) error {
					st.Lanes[i].OldestPending = max(0, time.Duration(s.clock()-r.ColumnInt64(0))*time.Microsecond)
					return nil
				}, ids[i])
			if err != nil {
				return err
			}
		}
		return query(c, "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()", func(r *sqlite.Stmt) error {
			st.Bytes = r.ColumnInt64(0)
			return nil
		})
	})
	if err := s.disk.check(s.now()); err != nil {
		st.Warnings = append(st.Warnings, err.Error())
	}
	return st, err
}

// laneStats copies the counts and returns the ids of their lanes.
func (s *Store) laneStats(st *store.Stats) []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	running := map[*lane]int64{}
	for _, l := range s.leases {
		running[l.lane]++
	}
	ids := make([]int64, len(s.lanes))
	for i, l := range s.lanes {
		ls := store.LaneStats{LaneID: l.LaneID, Source: store.SourceOf(l.Endpoint), Jobs: l.counts}
		ls.Jobs[event.Running] = running[l]
		ls.Jobs[event.Pending] -= running[l]
		st.Lanes = append(st.Lanes, ls)
		ids[i] = l.id
	}
	return ids
}
