package redis

import (
	"context"
	"errors"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// Finish implements store.Store.
func (s *Store) Finish(ctx context.Context, f store.Finish) (lost bool, err error) {
	keys := []string{s.keys.due(f.Lane), s.keys.wait(f.Lane)}
	if f.State != event.Pending {
		keys = []string{s.keys.final(f.State), s.keys.ended(f.State, f.Lane.Queue)}
		s.know(f.Lane.Queue)
	}
	failed := 0
	if f.State != event.Delivered && !f.Uncounted {
		failed = 1
	}
	reply, err := s.run(ctx, scriptFinish, keys, idText(f.Job), idText(f.Token), f.Attempt, int(f.State), f.RetryIn.Microseconds(),
		string(f.Reason), failed, f.Row.Error, appendAttempt(&f.Row), f.Lane.Queue, s.keys.of("wake"), s.name)
	if err == nil && f.State == event.Pending {
		s.ring()
	}
	return reply == int64(1), err
}

const (
	// errLost is what the ledger says of a life that nobody finished.
	errLost = "the attempt was cut off before its outcome was known; the endpoint may have seen it"
	// recoverAtOnce bounds one step, which holds up everybody else.
	recoverAtOnce = 200
)

// Recover implements store.Store. Every instance recovers for all of them, each life once.
func (s *Store) Recover(ctx context.Context) (store.Recovered, error) {
	var all store.Recovered
	for {
		before := len(all.Returned) + len(all.Dead)
		found, err := s.recoverSome(ctx, &all)
		// A round that others have worked off, or that fails, is not begun again at once.
		if err != nil || found < recoverAtOnce || len(all.Returned)+len(all.Dead) == before {
			return all, err
		}
	}
}

// recoverSome goes on behind a life that it cannot end.
func (s *Store) recoverSome(ctx context.Context, all *store.Recovered) (found int, err error) {
	reply, err := s.run(ctx, scriptExpired, nil, recoverAtOnce)
	if err != nil {
		return 0, err
	}
	lives, _ := reply.([]any)
	var errs []error
	for i := 0; i+1 < len(lives) && ctx.Err() == nil; i += 2 {
		errs = append(errs, s.recoverOne(ctx, text(lives, i), text(lives, i+1), all))
	}
	return len(lives) / 2, errors.Join(errs...)
}

func (s *Store) recoverOne(ctx context.Context, id, raw string, all *store.Recovered) error {
	ids := idsOf(id)
	if len(ids) != 1 {
		return errReply
	}
	j, token, err := parseJob(ids[0], raw)
	if err != nil {
		return s.fault("recover", err)
	}
	lane := store.LaneID{Queue: j.Queue, Endpoint: j.Endpoint}
	row := event.Attempt{Number: j.Attempts, StartedAt: claimedAt(raw), Class: event.ClassLost, Error: errLost}
	reply, err := s.run(ctx, scriptRecover,
		[]string{s.keys.due(lane), s.keys.wait(lane), s.keys.final(event.Dead), s.keys.ended(event.Dead, j.Queue)},
		id, idText(token), j.Attempts, appendAttempt(&row), errLost, string(event.ReasonCrashLoop), store.MaxLost, j.Queue,
		s.keys.of("wake"), s.name)
	now, ok := reply.(string)
	if err != nil || !ok { // not ok: another instance was first, or the holder
		return err
	}
	s.know(j.Queue)
	j, _, err = parseJob(j.ID, now)
	if err != nil {
		return s.fault("recover", err)
	}
	if j.State == event.Dead {
		all.Dead = append(all.Dead, j)
	} else {
		all.Returned = append(all.Returned, j)
		s.ring()
	}
	return nil
}
