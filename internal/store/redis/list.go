package redis

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// entry is one line of an index.
type entry struct {
	id event.ID
	at int64
}

// Jobs implements store.Store. Pending jobs are listed by lane, the others by state. A page merges the heads of those lists
// that the filter leaves, all read at one moment: a job that moves between them while a page is read is in exactly one.
//
// A cursor is the time that the next page starts below: times are given out once and grow, so the order by (time, id) is
// the order by time.
func (s *Store) Jobs(ctx context.Context, f store.JobFilter) (jobs []event.Job, next string, err error) {
	below, err := store.ParseCursor(f.Cursor)
	if err != nil {
		return nil, "", err
	}
	lists, err := s.lists(ctx, &f)
	if err != nil {
		return nil, "", err
	}
	err = s.read(ctx, "listing jobs", func(ctx context.Context) error {
		p, err := s.heads(ctx, lists, below, scan(f.Limit, f != store.JobFilter{State: f.State, Limit: f.Limit, Cursor: f.Cursor}))
		if err != nil {
			return err
		}
		jobs, err = walk(&p, f.Limit, func(ids []event.ID) ([]event.Job, error) { return s.loadJobs(ctx, ids) },
			func(j *event.Job) event.ID { return j.ID },
			func(j *event.Job) bool { return !j.Pruned && f.Match(j) })
		next = p.next()
		return err
	})
	return jobs, next, err
}

// lists are those that may have jobs that the filter selects.
func (s *Store) lists(ctx context.Context, f *store.JobFilter) ([]string, error) {
	var lists []string
	for _, st := range event.States() {
		switch {
		case f.State != nil && *f.State != st:
		case st == event.Running:
			lists = append(lists, s.keys.of("running"))
		case st.Final():
			lists = append(lists, s.keys.final(st))
		default:
			c, err := s.counts(ctx)
			if err != nil {
				return nil, err
			}
			for lane := range c.lanes {
				l := parseLane(lane)
				j := event.Job{ // tenant and type are as asked for: a lane has jobs of any
					State: st, Queue: l.Queue, Endpoint: l.Endpoint, Source: store.SourceOf(l.Endpoint), Tenant: f.Tenant, EventType: f.EventType,
				}
				if f.Match(&j) {
					lists = append(lists, s.keys.wait(l))
				}
			}
		}
	}
	return lists, nil
}

// page is a part of the merged lists that is complete.
type page struct {
	entries []entry
	looked  int
	// last is true when nothing comes behind the entries; else the next page starts at from.
	last bool
	from int64
}

func (p *page) next() string {
	switch {
	case p.looked < len(p.entries):
		return store.FormatCursor(p.entries[p.looked].at + 1)
	case p.last:
		return ""
	}
	return store.FormatCursor(p.from)
}

// loadAtLeast is how many records are read at once, so that a rare match costs no command for each entry before it.
const loadAtLeast = 200

// walk steps down a page until it has as many matches as asked for. load leaves out what is gone.
func walk[T any](p *page, limit int, load func([]event.ID) ([]T, error), id func(*T) event.ID, match func(*T) bool) ([]T, error) {
	var found []T
	for p.looked < len(p.entries) && len(found) < limit {
		batch := p.entries[p.looked:min(len(p.entries), p.looked+max(loadAtLeast, limit-len(found)))]
		ids := make([]event.ID, len(batch))
		for i := range batch {
			ids[i] = batch[i].id
		}
		some, err := load(ids)
		if err != nil {
			return nil, err
		}
		for i := 0; i < len(ids) && len(found) < limit; i++ {
			p.looked++
			if len(some) == 0 || id(&some[0]) != ids[i] {
				continue
			}
			if match(&some[0]) {
				found = append(found, some[0])
			}
			some = some[1:]
		}
	}
	return found, nil
}

// scan is how many entries of each list a page looks at: one more than it needs when all match, and many when few may, so
// that a rare match behind many others does not cost many short pages.
func scan(limit int, selective bool) int {
	if selective {
		return max(limit+1, 2500)
	}
	return limit + 1
}

// heads merges the heads of lists. Where a list goes on behind what was read of it, the page ends: what comes next there
// may be newer than what the other lists have.
func (s *Store) heads(ctx context.Context, lists []string, below int64, scan int) (page, error) {
	chunk := max(1, min(store.PageScan/max(1, len(lists)), scan))
	p := page{last: true}
	reply, err := s.ask(ctx, scriptHeads, lists, strconv.FormatInt(below, 10), chunk)
	if err != nil {
		return p, err
	}
	heads, _ := reply.([]any)
	for l := range heads {
		head := list(heads, l)
		last := int64(0)
		for i := 0; i+1 < len(head); i += 2 {
			at, err := strconv.ParseFloat(text(head, i+1), 64)
			ids := idsOf(text(head, i))
			if err != nil || len(ids) != 1 {
				return p, errReply
			}
			last = int64(at)
			p.entries = append(p.entries, entry{ids[0], last})
		}
		if len(head) == 2*chunk {
			p.last, p.from = false, max(p.from, last)
		}
	}
	p.entries = slices.DeleteFunc(p.entries, func(e entry) bool { return e.at < p.from })
	slices.SortFunc(p.entries, func(a, b entry) int { return cmp.Compare(b.at, a.at) })
	return p, nil
}

// factsAtFirst is how much of an event's record a list reads before it knows how much it needs: the facts of nearly all
// events, and few of their payloads.
const factsAtFirst = 512

// Events implements store.Store.
func (s *Store) Events(ctx context.Context, f store.EventFilter) (events []event.Event, next string, err error) {
	below, err := store.ParseCursor(f.Cursor)
	if err != nil {
		return nil, "", err
	}
	err = s.read(ctx, "listing events", func(ctx context.Context) error {
		p, err := s.heads(ctx, []string{s.keys.of("events")}, below, scan(f.Limit, f != store.EventFilter{Limit: f.Limit, Cursor: f.Cursor}))
		if err != nil {
			return err
		}
		events, err = walk(&p, f.Limit, func(ids []event.ID) ([]event.Event, error) { return s.loadFacts(ctx, ids) },
			func(e *event.Event) event.ID { return e.ID }, f.Match)
		next = p.next()
		return err
	})
	return events, next, err
}

// loadFacts reads events without their payloads and leaves out those that are gone.
func (s *Store) loadFacts(ctx context.Context, ids []event.ID) ([]event.Event, error) {
	heads := make([]*redis.StringCmd, len(ids))
	p := s.client.Pipeline()
	for i := range ids {
		heads[i] = p.GetRange(ctx, s.keys.event(ids[i]), 0, factsAtFirst-1)
	}
	if _, err := p.Exec(ctx); err != nil {
		return nil, err
	}
	events := make([]event.Event, 0, len(ids))
	for i, head := range heads {
		raw, _ := head.Bytes()
		if len(raw) == 0 {
			continue
		}
		e, err := parseEvent(ids[i], raw)
		for size := int64(len(raw)); err == nil && e.short && int64(len(raw)) == size; {
			size *= 4
			if raw, err = s.client.GetRange(ctx, s.keys.event(ids[i]), 0, size-1).Bytes(); err == nil {
				e, err = parseEvent(ids[i], raw)
			}
		}
		if err != nil {
			return nil, err
		}
		if !e.pruned {
			e.Payload = nil
			events = append(events, e.Event)
		}
	}
	return events, nil
}
