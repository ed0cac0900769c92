package anvil

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-anvil/anvil/internal/deliver"
	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/worker"
)

// engines holds the open stores with their workers. Across a reload the old and the new configuration share one entry, so
// that nothing is opened twice, claimed twice, or paused.
var engines = caddy.NewUsagePool()

const (
	checkEvery = time.Second
	// checkTimeout bounds a health check: one that hangs says less than one that fails.
	checkTimeout = 3 * time.Second
)

// engine is an open store and its workers. It outlives the configurations that attach to it; the newest one rules.
type engine struct {
	store  store.Store
	shared bool
	worker *worker.Engine
	client *deliver.Client
	log    *zap.Logger
	logTo  func(*zap.Logger)

	mu       sync.Mutex
	attached []*attachment
	drain    sync.Once
	drained  chan struct{}

	healthMu sync.Mutex
	checked  time.Time
	health   health
}

// health is what a check of the engine has found.
type health struct {
	err      error // of the store
	unrouted int64
}

// attachment is one configuration's hold on an engine.
type attachment struct {
	module storeModule
	log    *zap.Logger
	queues []string
	drain  time.Duration
	detach func()
}

// acquireEngine opens the module's store, or joins who has it open.
func acquireEngine(ctx context.Context, module storeModule, log *zap.Logger) (*engine, error) {
	v, _, err := engines.LoadOrNew(module.poolKey(), func() (caddy.Destructor, error) {
		log, use := newLogSwap(log)
		s, err := module.open(ctx, log.Named("store"))
		if err != nil {
			return nil, err
		}
		client := deliver.NewClient(deliver.Options{})
		e := &engine{store: s, shared: module.shared(), client: client, log: log, logTo: use, drained: make(chan struct{})}
		e.worker = worker.New(worker.Config{Store: s, Client: client, Log: log.Named("worker"), NewID: newID, Observer: workerMetrics{}})
		e.worker.Start()
		return e, nil
	})
	if err != nil {
		return nil, err
	}
	return v.(*engine), nil //nolint:forcetypeassert // the pool holds nothing else
}

// openEngines copies the pool's content: ranging holds its lock, which asking a store must not.
func openEngines() []*engine {
	var all []*engine
	engines.Range(func(_, v any) bool {
		if e, ok := v.(*engine); ok {
			all = append(all, e)
		}
		return true
	})
	return all
}

// attach makes a configuration the ruling one, until its detach or a newer attach.
func (e *engine) attach(module storeModule, log *zap.Logger, queues []string, settings worker.Settings) *attachment {
	a := &attachment{module: module, log: log, queues: queues, drain: settings.DrainTimeout}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.attached = append(e.attached, a)
	e.rule(a)
	a.detach = e.worker.Attach(settings)
	return a
}

// rule applies what a configuration wants of the engine beside the workers' settings.
func (e *engine) rule(a *attachment) {
	a.module.apply(e.store)
	e.logTo(a.log)
}

// detach may be called twice.
func (e *engine) detach(a *attachment) {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := slices.Index(e.attached, a)
	if i < 0 {
		return
	}
	a.detach()
	if len(e.attached) == 1 { // the last one: its log and its drain time serve until the end
		e.beginDrain(a.drain)
	}
	e.attached = slices.Delete(e.attached, i, i+1)
	if n := len(e.attached); n > 0 {
		e.rule(e.attached[n-1])
	}
}

// configuredQueues are those of the ruling configuration.
func (e *engine) configuredQueues() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.attached); n > 0 {
		return e.attached[n-1].queues
	}
	return nil
}

// check tells whether the store works. It asks at most once a second and on nobody's behalf: whoever may call a health
// check cannot make us write, nor spoil the next one's answer by hanging up.
func (e *engine) check() health {
	e.healthMu.Lock()
	defer e.healthMu.Unlock()
	if time.Since(e.checked) < checkEvery {
		return e.health
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	e.health.err = e.store.Check(ctx)
	// A store that is only slow to count still takes webhooks.
	stats, err := e.store.Stats(ctx)
	if err == nil {
		e.health.unrouted = e.worker.Unrouted(stats.Lanes)
	} else if e.health.err == nil && !errors.Is(err, context.DeadlineExceeded) {
		e.health.err = err
	}
	e.checked = time.Now()
	return e.health
}

// exit begins to drain: the process ends, and nothing is claimed any more.
func (e *engine) exit() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.attached); n > 0 {
		e.beginDrain(e.attached[n-1].drain)
	}
}

// beginDrain stops claiming, and gives what is under way its time, once in the engine's life.
func (e *engine) beginDrain(limit time.Duration) {
	e.drain.Do(func() {
		go func() {
			defer close(e.drained)
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			e.worker.Drain(ctx)
		}()
	})
}

// Destruct implements caddy.Destructor: nobody uses the store any more.
func (e *engine) Destruct() error {
	e.beginDrain(0)
	<-e.drained
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	e.worker.Stop(ctx)
	e.client.Close()
	e.reportLeft(ctx)
	if err := e.store.Close(); err != nil {
		return fmt.Errorf("closing store: %w", err)
	}
	return nil
}

// reportLeft logs what stays behind, since after a reload to another store nothing would deliver it. Of a shared store
// nobody knows that: others may have it open, or this process by another connection.
func (e *engine) reportLeft(ctx context.Context) {
	if e.shared {
		return
	}
	stats, err := e.store.Stats(ctx)
	if err != nil {
		return
	}
	left := int64(0)
	for i := range stats.Lanes {
		left += stats.Lanes[i].Jobs[event.Pending] + stats.Lanes[i].Jobs[event.Running]
	}
	if left > 0 {
		e.log.Info("closing a store that still has unfinished jobs; they go on when it is opened again",
			zap.String("store", e.store.Describe()), zap.Int64("jobs", left))
	}
}

// newID makes ids that grow with time within a process.
func newID() event.ID {
	id, err := uuid.NewV7()
	if err != nil {
		// Only the system's random source can fail, and Go ends the process when it does.
		panic(fmt.Sprintf("making an id: %v", err))
	}
	return id
}
