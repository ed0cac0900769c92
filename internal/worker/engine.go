// Package worker takes due jobs out of a store, has them delivered and writes down what came of it.
//
// There is one Engine for each open store, however many configurations come and go above it: a second one would claim
// the same lanes during a reload. Configurations attach their Settings; the newest rule.
package worker

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-anvil/anvil/internal/deliver"
	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// Sender makes one attempt; deliver.Client is one. It returns soon after its context ends.
type Sender interface {
	Send(ctx context.Context, r deliver.Request) deliver.Result
}

// Observer counts. Its methods are called from many goroutines and must return at once. endpoint is the identity.
type Observer interface {
	// Attempt is called for every attempt that gets a row in the ledger, lost ones included.
	Attempt(source, endpoint string, class event.Class)
	// Dead is called for every job that this engine has seen die.
	Dead(source, endpoint string, reason event.Reason)
}

// Config is what an engine is made of. Store, Client and NewID must be set.
type Config struct {
	Store  store.Store
	Client Sender
	NewID  func() event.ID
	// Log may be nil.
	Log *zap.Logger
	// Now is the clock of logs and of rows that no attempt has timed; nil means time.Now.
	Now func() time.Time
	// Rand returns numbers in [0,1) for jitter; nil means math/rand.
	Rand func() float64
	// Observer may be nil.
	Observer Observer
	// Every holds intervals; zero fields take the defaults.
	Every Intervals
}

// Intervals say how often the engine does what it does by itself. The defaults suit everybody but tests.
type Intervals struct {
	Lease   time.Duration // how long a claimed job is ours without renewal; 30s
	Renew   time.Duration // 10s
	Poll    time.Duration // the longest time without a look for due jobs, in case a wake-up was lost; 1s
	Recover time.Duration // looking for lives whose lease ran out; 5s
	House   time.Duration // lanes, orphans; 1m, or sooner as orphan_after wants it
	Prune   time.Duration // 5s
}

func (i *Intervals) fill() {
	set := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	set(&i.Lease, 30*time.Second)
	set(&i.Renew, 10*time.Second)
	set(&i.Poll, time.Second)
	set(&i.Recover, 5*time.Second)
	set(&i.House, time.Minute)
	set(&i.Prune, 5*time.Second)
}

// maxUnwritten bounds the outcomes that wait to be written. Above it slots stay taken, so that a store which is away
// stops the deliveries instead of filling the memory.
const maxUnwritten = 256

// Engine serves one store. Its methods are safe for concurrent use.
type Engine struct {
	store    store.Store
	client   Sender
	newID    func() event.ID
	log      *zap.Logger
	now      func() time.Time
	rand     func() float64
	observer Observer
	every    Intervals

	failedLog, deadLog, storeLog *limiter

	// loops ends the loops; writing, later, what still tries to reach the store.
	loops     context.Context //nolint:containedctx // the engine's own life, which no caller's context spans
	endLoops  context.CancelFunc
	writing   context.Context //nolint:containedctx // as above
	endWrites context.CancelFunc
	wg        sync.WaitGroup

	changed   chan struct{} // for the dispatcher: other settings rule
	refresh   chan struct{} // for the janitor: the same
	freed     chan struct{} // for the dispatcher: a slot is free
	unwritten chan struct{} // holds one for each outcome that waits to be written

	mu       sync.Mutex
	quiet    sync.Cond // of mu: one job less is held, or a claim has ended
	started  bool
	began    time.Time // set before the loops, then only read
	stopped  bool
	draining bool // nothing is claimed, and what is claimed already but not sent is given back
	claiming bool
	attached []*attachment
	ruling   *ruling // nil when nothing is attached
	// tellUnrouted is true until the newest settings have had their warning about jobs without an endpoint.
	tellUnrouted bool
	busy         map[string]int // slots in use by endpoint
	jobs         map[store.Lease]*held
}

// New returns an engine that does nothing until Start.
func New(c Config) *Engine {
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
	if c.Observer == nil {
		c.Observer = unobserved{}
	}
	c.Every.fill()
	e := &Engine{
		store: c.Store, client: c.Client, newID: c.NewID, log: c.Log, now: c.Now, rand: c.Rand, observer: c.Observer, every: c.Every,
		failedLog: newLimiter(c.Now, 20), deadLog: newLimiter(c.Now, 200), storeLog: newLimiter(c.Now, 2),
		changed: make(chan struct{}, 1), refresh: make(chan struct{}, 1), freed: make(chan struct{}, 1),
		unwritten: make(chan struct{}, maxUnwritten),
		busy:      map[string]int{}, jobs: map[store.Lease]*held{},
	}
	e.quiet.L = &e.mu
	e.loops, e.endLoops = context.WithCancel(context.Background())
	e.writing, e.endWrites = context.WithCancel(context.Background())
	return e
}

// Start begins to work. A second call does nothing.
func (e *Engine) Start() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.started || e.stopped {
		return
	}
	e.started, e.began = true, time.Now()
	e.wg.Go(e.dispatch)
	e.wg.Go(e.renew)
	e.wg.Go(e.keep)
}

// Running reports whether jobs are being delivered: started, attached with workers, not drained.
func (e *Engine) Running() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.started && !e.draining && e.ruling != nil && e.ruling.Workers
}

// Unrouted counts the pending jobs whose endpoint the ruling settings do not know; all pending jobs when there are no
// settings.
func (e *Engine) Unrouted(lanes []store.LaneStats) int64 { return unrouted(e.rules(), lanes) }

func unrouted(r *ruling, lanes []store.LaneStats) (n int64) {
	for i := range lanes {
		known := false
		if r != nil {
			_, known = r.Endpoints[lanes[i].Endpoint]
		}
		if !known {
			n += lanes[i].Jobs[event.Pending]
		}
	}
	return n
}

type unobserved struct{}

func (unobserved) Attempt(string, string, event.Class) {}
func (unobserved) Dead(string, string, event.Reason)   {}
