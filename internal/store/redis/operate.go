package redis

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// laneOf finds the lane of a job, which never changes. A script must be told the lane's keys before it can look itself.
func (s *Store) laneOf(ctx context.Context, id event.ID) (lane store.LaneID, err error) {
	err = s.read(ctx, "looking up a job", func(ctx context.Context) error {
		raw, err := s.client.HGet(ctx, s.keys.of("jobs"), idText(id)).Result()
		if isNil(err) {
			return store.ErrNotFound
		}
		if err != nil {
			return err
		}
		j, _, err := parseJob(id, raw)
		lane = store.LaneID{Queue: j.Queue, Endpoint: j.Endpoint}
		return err
	})
	return lane, err
}

func isNil(err error) bool { return errors.Is(err, redis.Nil) }

// Cancel implements store.Store.
func (s *Store) Cancel(ctx context.Context, job event.ID) (bool, error) {
	lane, err := s.laneOf(ctx, job)
	if err != nil {
		return false, err
	}
	s.know(lane.Queue)
	reply, err := s.runDurable(ctx, scriptCancel,
		[]string{s.keys.due(lane), s.keys.wait(lane), s.keys.final(event.Cancelled), s.keys.ended(event.Cancelled, lane.Queue)},
		idText(job), int(event.Cancelled), lane.Queue, idText(uuid.New()))
	if err == nil && reply == int64(-1) {
		err = store.ErrNotFound
	}
	return err == nil && reply == int64(event.Pending), err
}

// Replay implements store.Store.
func (s *Store) Replay(ctx context.Context, job, newJob event.ID, force bool) (store.Replayed, error) {
	lane, err := s.laneOf(ctx, job)
	if err != nil {
		return store.Replayed{}, err
	}
	s.know(lane.Queue)
	reply, err := s.runDurable(ctx, scriptReplay, []string{
		s.keys.due(lane), s.keys.wait(lane), s.keys.final(event.Dead), s.keys.ended(event.Dead, lane.Queue),
		s.keys.final(event.Replayed), s.keys.ended(event.Replayed, lane.Queue),
	}, idText(job), idText(newJob), digit(force), lane.Queue, s.keys.of("wake"), s.name)
	if err != nil {
		return store.Replayed{}, err
	}
	answer, _ := reply.([]any)
	state := number(answer, 1)
	switch {
	case number(answer, 0) == 1:
		s.ring()
		return store.Replayed{Replayed: true}, nil
	case state < 0:
		return store.Replayed{}, store.ErrNotFound
	case number(answer, 2) == 1:
		return store.Replayed{State: event.State(state)}, store.ErrPruned //nolint:gosec // written from a State
	}
	return store.Replayed{State: event.State(state)}, nil //nolint:gosec // as above
}

// Configured implements store.Store. It is called now and then, so it also sets the counts right.
func (s *Store) Configured(ctx context.Context, lanes []store.LaneID) error {
	if s.isClosed() {
		return store.ErrClosed
	}
	if len(lanes) > 0 {
		args := make([]any, len(lanes))
		for i, l := range lanes {
			args[i] = laneText(l)
		}
		if _, err := s.run(ctx, scriptNote, nil, args...); err != nil {
			return err
		}
	}
	return s.recount(ctx)
}

// recount gives all lanes at once: a queue of which one is left out keeps its count.
func (s *Store) recount(ctx context.Context) error {
	c, err := s.counts(ctx)
	if err != nil || len(c.lanes) == 0 {
		return err
	}
	keys, args := make([]string, 0, len(c.lanes)), make([]any, 0, len(c.lanes))
	for lane := range c.lanes {
		keys, args = append(keys, s.keys.wait(parseLane(lane))), append(args, lane)
	}
	_, err = s.run(ctx, scriptRecount, keys, args...)
	return err
}

const errNoEndpoint = "no configuration has this endpoint"

// Orphans implements store.Store.
func (s *Store) Orphans(ctx context.Context, after time.Duration, limit int) ([]event.Job, error) {
	c, err := s.counts(ctx)
	if err != nil {
		return nil, err
	}
	var killed []event.Job
	for lane, jobs := range c.lanes {
		if jobs[event.Pending] == 0 || c.noted[lane] >= c.now-after.Microseconds() || len(killed) >= limit {
			continue
		}
		l := parseLane(lane)
		s.know(l.Queue)
		reply, err := s.run(ctx, scriptOrphans,
			[]string{s.keys.due(l), s.keys.wait(l), s.keys.final(event.Dead), s.keys.ended(event.Dead, l.Queue)},
			lane, l.Queue, after.Microseconds(), min(limit-len(killed), pruneAtOnce), string(event.ReasonNoEndpoint), errNoEndpoint)
		if err != nil {
			return killed, err
		}
		answer, _ := reply.([]any)
		some, err := parseJobs(answer)
		if err != nil {
			return killed, s.fault("orphans", err)
		}
		killed = append(killed, some...)
	}
	return killed, nil
}
