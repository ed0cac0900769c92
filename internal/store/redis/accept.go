package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

var errNoJobs = errors.New("accepting an event without jobs: nothing would ever happen to it")

// Accept implements store.Store.
func (s *Store) Accept(ctx context.Context, a store.Accept) (store.Accepted, error) {
	if len(a.Jobs) == 0 {
		return store.Accepted{}, errNoJobs
	}
	keys := make([]string, 0, 1+len(a.Keys)+2*len(a.Jobs))
	keys = append(keys, s.keys.event(a.Event.ID))
	for _, k := range a.Keys {
		keys = append(keys, s.keys.key(&a.Event, k.Value))
	}
	var ids strings.Builder
	ids.Grow(16 * len(a.Jobs))
	pending := false
	for i := range a.Jobs {
		j := &a.Jobs[i]
		ids.Write(j.ID[:])
		lane := store.LaneID{Queue: j.Queue, Endpoint: j.Endpoint}
		if j.Observed {
			keys = append(keys, s.keys.final(event.Observed), s.keys.ended(event.Observed, j.Queue))
		} else {
			keys = append(keys, s.keys.due(lane), s.keys.wait(lane))
			pending = true
		}
		s.know(j.Queue)
	}
	args := make([]any, 0, 7+len(a.Keys)+4*len(a.Jobs))
	args = append(args, idText(a.Event.ID), len(a.Keys), len(a.Jobs), ids.String(), appendFacts(&a.Event, a.Keys), a.Event.Payload,
		appendInfo(nil, &a.Event))
	for _, k := range a.Keys {
		args = append(args, k.TTL.Microseconds())
	}
	for i := range a.Jobs {
		j := &a.Jobs[i]
		args = append(args, laneText(store.LaneID{Queue: j.Queue, Endpoint: j.Endpoint}), j.Queue, digit(j.Observed), max(0, j.MaxPending))
	}

	o := &op{script: scriptAccept, durable: s.o.Replicas > 0, large: len(a.Event.Payload) >= largeFrom}
	reply, err := s.call(ctx, o, keys, args)
	if err != nil {
		return store.Accepted{}, err
	}
	answer, _ := reply.([]any)
	switch kind := text(answer, 0); kind {
	case "stored", "duplicate":
		id, jobs := idsOf(text(answer, 1)), idsOf(text(answer, 2))
		if len(id) != 1 || len(jobs) == 0 {
			return store.Accepted{}, errReply
		}
		if kind == "stored" && pending {
			s.ring()
		}
		return store.Accepted{EventID: id[0], JobIDs: jobs, Duplicate: kind == "duplicate"}, nil
	case "backlog":
		return store.Accepted{}, fmt.Errorf("%w: queue %s has %d unfinished jobs", store.ErrBacklog, text(answer, 1), number(answer, 2))
	case "full":
		return store.Accepted{}, fmt.Errorf("%w: Redis uses %d of its %d bytes, new webhooks are refused from %.0f %% on",
			store.ErrFull, s.server.used.Load(), s.server.limit.Load(), 100*fullAt)
	}
	return store.Accepted{}, errReply
}

func digit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// text and number read one element of an answer; what is not there is empty.
func text(answer []any, i int) string {
	if i >= len(answer) {
		return ""
	}
	t, _ := answer[i].(string)
	return t
}

func number(answer []any, i int) int64 {
	if i >= len(answer) {
		return 0
	}
	n, _ := answer[i].(int64)
	return n
}

// list is an element that is a list itself.
func list(answer []any, i int) []any {
	if i >= len(answer) {
		return nil
	}
	l, _ := answer[i].([]any)
	return l
}
