package worker

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/caddy-anvil/anvil/internal/store"
)

// Settings are what one configuration wants of the engine.
type Settings struct {
	// Workers is false where this instance only receives: nothing is claimed, the store is still kept in order.
	Workers bool
	// DrainTimeout is the most that Drain waits for attempts under way; 0 cuts them at once.
	DrainTimeout time.Duration
	// OrphanAfter is how long due jobs wait for an endpoint that nobody configures before they are dead; 0 means for ever.
	OrphanAfter time.Duration
	// Endpoints by identity.
	Endpoints map[string]Endpoint
	Retention store.Retention
}

// Endpoint is a destination with its policy.
type Endpoint struct {
	// Identity is "<source>/<name>".
	Identity string
	Queue    string
	// URL as deliver.ParseUpstream returns it.
	URL string
	// Timeout of one attempt; 0 means deliver.DefaultTimeout.
	Timeout time.Duration
	// Concurrency is the number of slots; less than 1 means 1.
	Concurrency int
	Retry       RetryPolicy
}

func (ep *Endpoint) slots() int { return max(ep.Concurrency, 1) }

// ruling is the attached settings that count now, with the lanes to serve. It is never changed, only replaced.
type ruling struct {
	Settings
	// passes list the lanes to claim from. An endpoint appears once in a pass, because what a claim may take is its free
	// slots; the lanes of queues that it has left come in passes of their own and first, as their jobs are the older.
	passes [][]store.LaneID
	// lanes are all of them.
	lanes []store.LaneID
}

// newRuling lays out the lanes: left are lanes with jobs in queues that their endpoints have left.
func newRuling(s Settings, left []store.LaneID) *ruling {
	r := &ruling{Settings: s}
	seen := map[string]int{}
	for _, id := range left {
		pass := seen[id.Endpoint]
		seen[id.Endpoint]++
		if pass == len(r.passes) {
			r.passes = append(r.passes, nil)
		}
		r.passes[pass] = append(r.passes[pass], id)
	}
	own := make([]store.LaneID, 0, len(s.Endpoints))
	for identity, ep := range s.Endpoints {
		own = append(own, store.LaneID{Queue: ep.Queue, Endpoint: identity})
	}
	slices.SortFunc(own, func(a, b store.LaneID) int { return cmp.Compare(a.Endpoint, b.Endpoint) })
	r.passes = append(r.passes, own)
	r.lanes = slices.Concat(r.passes...)
	return r
}

// leftLanes finds unfinished jobs of known endpoints in queues other than the endpoint's own.
func (r *ruling) leftLanes(lanes []store.LaneStats) (left []store.LaneID) {
	for i := range lanes {
		l := &lanes[i]
		if ep, known := r.Endpoints[l.Endpoint]; known && l.Queue != ep.Queue && unfinished(l) > 0 {
			left = append(left, l.LaneID)
		}
	}
	return left
}

type attachment struct{ settings Settings }

// Attach makes s the ruling settings. detach takes them back, and the newest of the others rules again; it may be called
// more than once. Attach also ends an earlier Drain.
func (e *Engine) Attach(s Settings) (detach func()) {
	s.Endpoints = maps.Clone(s.Endpoints)
	a := &attachment{settings: s}
	e.mu.Lock()
	e.attached = append(e.attached, a)
	e.draining = e.stopped
	e.tellUnrouted = true
	e.rule()
	e.mu.Unlock()
	return sync.OnceFunc(func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		i := slices.Index(e.attached, a)
		rules := i == len(e.attached)-1
		e.attached = slices.Delete(e.attached, i, i+1)
		if rules {
			e.rule()
		}
	})
}

// rule puts the newest attached settings in charge. The caller holds mu.
func (e *Engine) rule() {
	e.ruling = nil
	if n := len(e.attached); n > 0 {
		e.ruling = newRuling(e.attached[n-1].settings, nil)
	}
	signal(e.changed)
	signal(e.refresh)
}

// serve returns r with the lanes that its endpoints have left, and lets it rule unless other settings do by now.
func (e *Engine) serve(r *ruling, left []store.LaneID) *ruling {
	with := newRuling(r.Settings, left)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ruling == r && !slices.Equal(with.lanes, r.lanes) {
		e.ruling = with
		signal(e.changed)
	}
	return with
}

func (e *Engine) rules() *ruling {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ruling
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
