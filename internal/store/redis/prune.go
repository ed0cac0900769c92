package redis

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

const (
	// pruneAtOnce bounds a step; each job of it is a script of its own, so that others come in between.
	pruneAtOnce = 100
	// learnEvery is how often an instance asks which queues the others have brought in.
	learnEvery = time.Minute
)

// Prune implements store.Store. Every instance may do it at the same time: what one has taken, the other finds gone.
func (s *Store) Prune(ctx context.Context, r store.Retention) (more bool, err error) {
	queues, err := s.knownQueues(ctx, r)
	if err != nil {
		return false, err
	}
	type ended struct {
		state event.State
		key   string
		keep  int64
	}
	var lists []ended
	var keys []string
	args := []any{pruneAtOnce}
	for _, q := range queues {
		keep, ok := r.Queues[q]
		if !ok {
			keep = r.Default
		}
		for _, st := range event.States() {
			if st.Final() {
				l := ended{st, s.keys.ended(st, q), s.keptFor(st, keep).Microseconds()}
				lists, keys, args = append(lists, l), append(keys, l.key), append(args, l.keep)
			}
		}
	}
	reply, err := s.run(ctx, scriptPrunable, keys, args...)
	if err != nil {
		return false, err
	}
	answer, _ := reply.([]any)
	found, spent := list(answer, 0), list(answer, 1)
	steps := make([]func() error, 0, len(found)/3+len(spent))
	for i := 0; i+2 < len(found); i += 3 {
		id, raw, l := text(found, i), text(found, i+1), number(found, i+2)
		ids := idsOf(id)
		if len(ids) != 1 || l < 0 || l >= int64(len(lists)) {
			return false, errReply
		}
		j, _, _ := parseJob(ids[0], raw) // a record that is lost has its entries removed, too
		from := lists[l]
		steps = append(steps, func() error {
			_, err := s.run(ctx, scriptPrune, []string{s.keys.event(j.EventID), s.keys.final(from.state), from.key},
				id, idText(j.EventID), int(from.state), from.keep)
			return err
		})
	}
	for i := range spent {
		id := text(spent, i)
		steps = append(steps, func() error {
			_, err := s.run(ctx, scriptForget, []string{s.keys.tag + "event:" + id}, id)
			return err
		})
	}
	return len(found)/3 >= pruneAtOnce || len(spent) >= pruneAtOnce, atOnce(steps)
}

// keptFor shortens the life of what was delivered while memory is short: new webhooks matter more than old ones that
// arrived.
func (s *Store) keptFor(st event.State, keep store.StateRetention) time.Duration {
	if st == event.Delivered && s.full() {
		return 0
	}
	return keep[st]
}

// atOnce does the steps at the same time, so that they share a pipeline.
func atOnce(steps []func() error) error {
	errs := make(chan error, len(steps))
	for _, step := range steps {
		go func() { errs <- step() }()
	}
	var first error
	for range steps {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// knownQueues are those that have or had jobs.
func (s *Store) knownQueues(ctx context.Context, r store.Retention) ([]string, error) {
	if s.learnt.before(learnEvery) {
		var fields []string
		err := s.read(ctx, "listing queues", func(ctx context.Context) (err error) {
			fields, err = s.client.HKeys(ctx, s.keys.of("counts")).Result()
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, f := range fields {
			queue, _, _ := strings.Cut(f, "\x00")
			s.know(queue)
		}
		s.learnt.set()
	}
	var all []string
	s.queues.Range(func(queue, _ any) bool {
		name, _ := queue.(string)
		all = append(all, name)
		return true
	})
	for q := range r.Queues {
		if _, known := s.queues.Load(q); !known {
			all = append(all, q)
		}
	}
	slices.Sort(all)
	return all, nil
}
