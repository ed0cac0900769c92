package admin

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

const (
	defaultLimit = 50
	maxLimit     = 500
	// deadSuffix on a queue's name is the queue of its dead jobs.
	deadSuffix = ".dead"
)

// parseJobFilter reads the query of a list of jobs.
func parseJobFilter(q url.Values) (store.JobFilter, error) {
	if err := checkNames(q, "state", "queue", "source", "endpoint", "tenant", "eventType", "limit", "cursor"); err != nil {
		return store.JobFilter{}, err
	}
	limit, err := parseLimit(q.Get("limit"))
	if err != nil {
		return store.JobFilter{}, err
	}
	f := store.JobFilter{
		Queue: q.Get("queue"), Source: q.Get("source"), Endpoint: q.Get("endpoint"), Tenant: q.Get("tenant"),
		EventType: q.Get("eventType"), Limit: limit, Cursor: q.Get("cursor"),
	}
	if name := q.Get("state"); name != "" {
		state, ok := event.ParseState(name)
		if !ok {
			return f, invalid("parameter \"state\" is %q; allowed are %s", cut(name), stateNames())
		}
		f.State = &state
	}
	if queue, ok := strings.CutSuffix(f.Queue, deadSuffix); ok {
		if queue == "" {
			return f, invalid("parameter \"queue\" is %q; write <queue>%s", f.Queue, deadSuffix)
		}
		dead := event.Dead
		if f.State != nil && *f.State != dead {
			return f, invalid("parameter \"queue\" is %q, which holds dead jobs only, but \"state\" is %q", cut(f.Queue), *f.State)
		}
		f.Queue, f.State = queue, &dead
	}
	if f.Endpoint != "" && !strings.Contains(f.Endpoint, "/") {
		if f.Source == "" {
			return f, invalid("parameter \"endpoint\" is %q; write source/name, or give \"source\" as well", cut(f.Endpoint))
		}
		f.Endpoint = f.Source + "/" + f.Endpoint
	}
	return f, nil
}

// parseEventFilter reads the query of a list of events.
func parseEventFilter(q url.Values) (store.EventFilter, error) {
	if err := checkNames(q, "source", "tenant", "eventType", "limit", "cursor"); err != nil {
		return store.EventFilter{}, err
	}
	limit, err := parseLimit(q.Get("limit"))
	return store.EventFilter{
		Source: q.Get("source"), Tenant: q.Get("tenant"), EventType: q.Get("eventType"), Limit: limit, Cursor: q.Get("cursor"),
	}, err
}

// checkNames refuses what it does not know: a misspelt filter that is dropped shows everything as if it matched.
func checkNames(q url.Values, allowed ...string) error {
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if !slices.Contains(allowed, name) {
			return invalid("parameter %q is unknown; allowed are %s", cut(name), strings.Join(allowed, ", "))
		}
		if len(q[name]) > 1 {
			return invalid("parameter %q is given %d times; give it once", name, len(q[name]))
		}
	}
	return nil
}

func parseLimit(text string) (int, error) {
	if text == "" {
		return defaultLimit, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxLimit {
		return 0, invalid("parameter \"limit\" is %q; allowed is a number from 1 to %d", cut(text), maxLimit)
	}
	return n, nil
}

func stateNames() string {
	var names []string
	for _, s := range event.States() {
		names = append(names, s.String())
	}
	return strings.Join(names, ", ")
}
