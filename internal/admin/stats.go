package admin

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// Stats is what the store holds now.
type Stats struct {
	// Store names the store and its place: "sqlite /var/lib/caddy/anvil/anvil.db".
	Store string `json:"store"`
	// Bytes is the size of the store on its medium, 0 when unknown.
	Bytes int64 `json:"bytes"`
	// Queues are sorted by name, Endpoints by identity, then queue.
	Queues    []QueueStats    `json:"queues"`
	Endpoints []EndpointStats `json:"endpoints"`
	// Unrouted counts the pending jobs whose endpoint nobody has configured.
	Unrouted int64 `json:"unrouted"`
	// Warnings are standing facts that the operator should know.
	Warnings []string `json:"warnings"`
}

// Counts are jobs by state; pruned ones are not counted.
type Counts struct {
	Pending   int64 `json:"pending"`
	Running   int64 `json:"running"`
	Delivered int64 `json:"delivered"`
	Dead      int64 `json:"dead"`
	Cancelled int64 `json:"cancelled"`
	Replayed  int64 `json:"replayed"`
	Observed  int64 `json:"observed"`
	// OldestPendingSeconds is the age of the oldest pending job, 0 when there is none.
	OldestPendingSeconds float64 `json:"oldestPendingSeconds"`
}

// QueueStats counts the jobs of a queue.
type QueueStats struct {
	Queue string `json:"queue"`
	Counts
}

// EndpointStats counts the jobs of an endpoint in one queue: an endpoint that moved to another has a row for each.
type EndpointStats struct {
	Source string `json:"source"`
	// Endpoint is the identity "<source>/<name>".
	Endpoint string `json:"endpoint"`
	Queue    string `json:"queue"`
	Counts
}

// Stats counts jobs by queue and by endpoint.
func (s *Service) Stats(ctx context.Context) (Stats, error) {
	st, err := s.Store.Stats(ctx)
	if err != nil {
		return Stats{}, failed("counting jobs", err)
	}
	out := Stats{
		Store: s.Store.Describe(), Bytes: st.Bytes, Endpoints: make([]EndpointStats, 0, len(st.Lanes)),
		Warnings: append([]string{}, st.Warnings...),
	}
	if s.Unrouted != nil {
		out.Unrouted = s.Unrouted(st.Lanes)
	}
	queues := map[string]Counts{}
	for i := range st.Lanes {
		l := &st.Lanes[i]
		c := countsOf(l)
		out.Endpoints = append(out.Endpoints, EndpointStats{Source: l.Source, Endpoint: l.Endpoint, Queue: l.Queue, Counts: c})
		queues[l.Queue] = queues[l.Queue].plus(c)
	}
	slices.SortFunc(out.Endpoints, func(a, b EndpointStats) int {
		return cmp.Or(cmp.Compare(a.Endpoint, b.Endpoint), cmp.Compare(a.Queue, b.Queue))
	})
	out.Queues = make([]QueueStats, 0, len(queues))
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		out.Queues = append(out.Queues, QueueStats{Queue: name, Counts: queues[name]})
	}
	return out, nil
}

func countsOf(l *store.LaneStats) Counts {
	return Counts{
		Pending: l.Jobs[event.Pending], Running: l.Jobs[event.Running], Delivered: l.Jobs[event.Delivered], Dead: l.Jobs[event.Dead],
		Cancelled: l.Jobs[event.Cancelled], Replayed: l.Jobs[event.Replayed], Observed: l.Jobs[event.Observed],
		OldestPendingSeconds: l.OldestPending.Round(time.Millisecond).Seconds(),
	}
}

func (c Counts) plus(d Counts) Counts {
	return Counts{
		Pending: c.Pending + d.Pending, Running: c.Running + d.Running, Delivered: c.Delivered + d.Delivered, Dead: c.Dead + d.Dead,
		Cancelled: c.Cancelled + d.Cancelled, Replayed: c.Replayed + d.Replayed, Observed: c.Observed + d.Observed,
		OldestPendingSeconds: max(c.OldestPendingSeconds, d.OldestPendingSeconds),
	}
}
