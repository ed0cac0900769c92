package redis

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// Job implements store.Store.
func (s *Store) Job(ctx context.Context, id event.ID) (event.Job, []event.Attempt, error) {
	reply, err := s.ask(ctx, scriptJob, nil, idText(id))
	if err != nil {
		return event.Job{}, nil, err
	}
	answer, _ := reply.([]any)
	raw := text(answer, 0)
	if raw == "" {
		return event.Job{}, nil, store.ErrNotFound
	}
	job, _, err := parseJob(id, raw)
	switch {
	case err != nil:
		return job, nil, s.fault("reading a job", err)
	case job.Pruned:
		return job, nil, store.ErrPruned
	}
	ledger, err := parseLedger(text(answer, 1))
	return job, ledger, s.fault("reading a ledger", err)
}

// Event implements store.Store.
func (s *Store) Event(ctx context.Context, id event.ID) (event.Event, []event.Job, error) {
	reply, err := s.ask(ctx, scriptEvent, []string{s.keys.event(id)}, idText(id))
	if err != nil {
		return event.Event{}, nil, err
	}
	answer, _ := reply.([]any)
	if len(answer) == 0 {
		return event.Event{}, nil, store.ErrNotFound
	}
	e, err := parseEvent(id, []byte(text(answer, 0)))
	switch {
	case err != nil:
		return event.Event{}, nil, s.fault("reading an event", err)
	case e.pruned:
		return event.Event{}, nil, store.ErrPruned
	}
	jobs, err := parseJobs(list(answer, 1))
	return e.Event, jobs, s.fault("reading an event's jobs", err)
}

// loadJobs reads the jobs that are still there, in the order of the ids.
func (s *Store) loadJobs(ctx context.Context, ids []event.ID) ([]event.Job, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	names := make([]string, len(ids))
	for i := range ids {
		names[i] = idText(ids[i])
	}
	raw, err := s.client.HMGet(ctx, s.keys.of("jobs"), names...).Result()
	if err != nil {
		return nil, err
	}
	jobs := make([]event.Job, 0, len(ids))
	for i := range ids {
		if text(raw, i) == "" {
			continue
		}
		if j, _, err := parseJob(ids[i], text(raw, i)); err == nil { // a damaged one has its error in Job
			jobs = append(jobs, j)
		}
	}
	return jobs, nil
}

// counted is what the store counts, at one moment of its clock.
type counted struct {
	now   int64
	lanes map[string]*[7]int64
	noted map[string]int64
}

func (s *Store) counts(ctx context.Context) (counted, error) {
	c := counted{lanes: map[string]*[7]int64{}, noted: map[string]int64{}}
	reply, err := s.run(ctx, scriptStats, nil)
	if err != nil {
		return c, err
	}
	answer, _ := reply.([]any)
	c.now, _ = strconv.ParseInt(text(answer, 0), 10, 64)
	fields, noted := list(answer, 1), list(answer, 2)
	for i := 0; i+1 < len(fields); i += 2 {
		n, _ := strconv.ParseInt(text(fields, i+1), 10, 64)
		lane, st, ok := countField(text(fields, i))
		if !ok {
			continue
		}
		if c.lanes[lane] == nil {
			c.lanes[lane] = new([7]int64)
		}
		c.lanes[lane][st] = max(0, n) // less when Redis has evicted the counts
	}
	for i := 0; i+1 < len(noted); i += 2 {
		c.noted[text(noted, i)], _ = strconv.ParseInt(text(noted, i+1), 10, 64)
	}
	return c, nil
}

// Stats implements store.Store. Bytes is the memory of the whole server, others' keys included.
func (s *Store) Stats(ctx context.Context) (store.Stats, error) {
	var st store.Stats
	c, err := s.counts(ctx)
	if err != nil {
		return st, err
	}
	for lane, n := range c.lanes {
		l := parseLane(lane)
		st.Lanes = append(st.Lanes, store.LaneStats{LaneID: l, Source: store.SourceOf(l.Endpoint), Jobs: *n})
	}
	slices.SortFunc(st.Lanes, func(a, b store.LaneStats) int {
		return strings.Compare(laneText(a.LaneID), laneText(b.LaneID))
	})
	err = s.read(ctx, "reading stats", func(ctx context.Context) error { return s.oldest(ctx, &st, c.now) })
	s.server.mu.Lock()
	st.Warnings = slices.Clone(s.server.warnings)
	s.server.mu.Unlock()
	s.lookAtMemory(ctx)
	st.Bytes = s.server.used.Load()
	return st, err
}

func (s *Store) oldest(ctx context.Context, st *store.Stats, now int64) error {
	p := s.client.Pipeline()
	heads := make([]*redis.ZSliceCmd, len(st.Lanes))
	for i := range st.Lanes {
		if st.Lanes[i].Jobs[event.Pending] > 0 {
			heads[i] = p.ZRangeWithScores(ctx, s.keys.wait(st.Lanes[i].LaneID), 0, 0)
		}
	}
	if p.Len() == 0 {
		return nil
	}
	if _, err := p.Exec(ctx); err != nil {
		return err
	}
	for i, head := range heads {
		if head != nil && len(head.Val()) > 0 {
			st.Lanes[i].OldestPending = max(0, time.Duration(now-int64(head.Val()[0].Score))*time.Microsecond)
		}
	}
	return nil
}
