package anvil

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"

	"github.com/caddy-anvil/anvil/internal/admin"
	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/worker"
)

const (
	defaultConcurrency  = 8
	defaultMaxPending   = 1_000_000
	defaultDrainTimeout = 4 * time.Second
	defaultOrphanAfter  = 24 * time.Hour
	// openTimeout bounds how long a configuration waits for its store.
	openTimeout = 30 * time.Second
)

var defaultRetention = store.StateRetention{
	event.Delivered: 24 * time.Hour,
	event.Observed:  7 * 24 * time.Hour,
	event.Dead:      30 * 24 * time.Hour,
	event.Cancelled: 30 * 24 * time.Hour,
	event.Replayed:  30 * 24 * time.Hour,
}

// App keeps accepted webhooks and delivers them. A configuration that uses the directive anvil gets one with all defaults
// when it says nothing about it.
type App struct {
	AppConfig

	ctx    caddy.Context
	log    *zap.Logger
	flood  *zap.Logger // for what a sender can cause at will
	module storeModule

	mu      sync.Mutex
	sources map[string]*source

	// started is closed when the store is open. Requests can come before, because Caddy starts its apps in random order.
	started chan struct{}
	engine  atomic.Pointer[engine]
	policy  worker.Settings
	hold    *attachment // nil until all apps have started
	held    []string    // whose metric series this configuration holds: sources, endpoint identities and secrets
	// released is set by Cleanup, so that a second one does not close the store of somebody else.
	released bool
}

// CaddyModule returns the Caddy module information.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "anvil", New: func() caddy.Module { return new(App) }}
}

// appOf gets the configuration's app, which Caddy makes with all defaults where the configuration has none.
func appOf(ctx caddy.Context) (*App, error) {
	app, err := ctx.App("anvil")
	if err != nil {
		return nil, fmt.Errorf("getting anvil app: %w", err)
	}
	return app.(*App), nil //nolint:forcetypeassert // registered under this name by this package
}

// Provision loads the store's module and the global sources. It opens nothing: Caddy provisions a configuration to
// validate it, too.
func (a *App) Provision(ctx caddy.Context) error {
	a.ctx, a.log = ctx, ctx.Logger()
	a.flood = sampled(a.log)
	a.sources, a.started = map[string]*source{}, make(chan struct{})
	if err := a.validate(); err != nil {
		return err
	}
	if err := registerMetrics(ctx.GetMetricsRegistry()); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	if err := a.watchEvents(); err != nil {
		return err
	}
	if err := a.loadStore(); err != nil {
		return fmt.Errorf("loading store: %w", err)
	}
	for i := range a.Sources {
		if _, err := a.register(&a.Sources[i], "the global option"); err != nil {
			return err
		}
	}
	return nil
}

// watchEvents learns when the configuration is in force, and of the end of the process before the first app is stopped.
// Caddy starts and stops apps in random order. When another app cannot start, the configuration is rejected, and its word on
// the jobs that wait must not have counted for a moment. At the end http may hold up the stop for long: until our turn came,
// workers would begin attempts that cannot end well.
func (a *App) watchEvents() error {
	app, err := a.ctx.App("events")
	if err != nil {
		return fmt.Errorf("getting events app: %w", err)
	}
	events := app.(*caddyevents.App) //nolint:forcetypeassert // registered under this name by Caddy
	if err := events.On("started", onEvent(a.rule)); err != nil {
		return err
	}
	return events.On("stopping", onEvent(a.exit))
}

// onEvent implements caddyevents.Handler.
type onEvent func()

// Handle implements caddyevents.Handler.
func (f onEvent) Handle(context.Context, caddy.Event) error {
	f()
	return nil
}

// rule makes this configuration the ruling one, once: any module may emit an event of that name.
func (a *App) rule() {
	e := a.openEngine()
	if e == nil || a.hold != nil {
		return
	}
	for name, s := range a.sources {
		useSecrets(name, s.secrets())
	}
	a.hold = e.attach(a.module, a.log, a.queueNames(), a.policy)
}

func (a *App) exit() {
	if e := a.openEngine(); e != nil && caddy.Exiting() {
		e.exit()
	}
}

func (a *App) loadStore() error {
	var mod any
	var err error
	if a.StoreRaw == nil {
		mod, err = a.ctx.LoadModuleByID("anvil.stores.sqlite", nil)
	} else {
		mod, err = a.ctx.LoadModule(a, "StoreRaw")
	}
	if err != nil {
		return err
	}
	var ok bool
	if a.module, ok = mod.(storeModule); !ok {
		return fmt.Errorf("module %T is not a store", mod)
	}
	return nil
}

// register makes a source, or joins the equal one that was registered before: Caddy provisions a site once for each
// listener. place says where the settings stand, for the error about two that differ.
func (a *App) register(cfg *SourceConfig, place string) (*source, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	have := a.sources[cfg.Source]
	switch {
	case have == nil && cfg.isReference():
		return nil, fmt.Errorf("source '%s' has no settings here, and the global option has no source of this name", cfg.Source)
	case have == nil:
	case cfg.isReference(), reflect.DeepEqual(have.cfg, *cfg):
		return have, nil
	default:
		return nil, fmt.Errorf("source '%s' of %s has other settings in %s; use one source block in the global option, or two names",
			cfg.Source, place, have.place)
	}
	if q := cfg.queue(); q != defaultQueue {
		if _, ok := a.Queues[q]; !ok {
			return nil, fmt.Errorf("source '%s' uses the queue '%s', which the global option does not have%s",
				cfg.Source, q, suggest(q, append(slices.Collect(maps.Keys(a.Queues)), defaultQueue)))
		}
	}
	s, err := newSource(cfg, a.maxPending(cfg.queue()), a.log)
	if err != nil {
		return nil, fmt.Errorf("source '%s': %w", cfg.Source, err)
	}
	s.place = place
	a.sources[cfg.Source] = s
	return s, nil
}

func (c *SourceConfig) queue() string {
	if c.Queue == "" {
		return defaultQueue
	}
	return c.Queue
}

func (a *App) maxPending(queue string) int {
	if n := a.Queues[queue].MaxPending; n != 0 {
		return n
	}
	return defaultMaxPending
}

// Start opens the store, or joins it where the configuration before has it open. From now on requests are taken; the
// workers follow this configuration once all of its apps have started.
func (a *App) Start() error {
	ctx, cancel := context.WithTimeout(a.ctx, openTimeout)
	defer cancel()
	e, err := acquireEngine(ctx, a.module, a.log)
	if err != nil {
		return err
	}
	a.engine.Store(e)
	if a.policy, err = a.settings(); err != nil {
		return err
	}
	a.held = slices.Concat(slices.Collect(maps.Keys(a.sources)), slices.Collect(maps.Keys(a.policy.Endpoints)))
	for _, src := range a.sources {
		for _, secret := range src.secretSeries() {
			a.held = append(a.held, secret.name())
		}
	}
	holdSeries(a.held)
	for _, name := range slices.Sorted(maps.Keys(a.sources)) {
		a.sources[name].start(a.log, e.store.Describe())
	}
	close(a.started)
	return nil
}

// Stop ends this configuration's rule over the workers. Requests still come until Cleanup, so the store stays. It runs
// under Caddy's configuration lock and waits only when the process ends. (A reload that leaves a store behind waits in
// Cleanup, for the attempts under way and at most drain_timeout.)
func (a *App) Stop() error {
	if a.hold == nil { // nothing was claimed for it that could be waited for
		return nil
	}
	e := a.openEngine()
	if caddy.Exiting() {
		e.exit()
		<-e.drained
	}
	e.detach(a.hold)
	return nil
}

// Cleanup gives the store back. Caddy calls it without Stop when Start has failed.
func (a *App) Cleanup() error {
	releaseSeries(a.held)
	a.held = nil
	e := a.openEngine()
	if e == nil || a.released {
		return nil
	}
	a.released = true
	if a.hold != nil {
		e.detach(a.hold)
	}
	_, err := engines.Delete(a.module.poolKey())
	return err
}

func (a *App) queueNames() []string {
	names := slices.Collect(maps.Keys(a.Queues))
	if !slices.Contains(names, defaultQueue) {
		names = append(names, defaultQueue)
	}
	return names
}

// openEngine is nil before Start. After Cleanup the engine may be closed, or still open for a newer configuration: a
// request that began before a reload can then still be taken.
func (a *App) openEngine() *engine { return a.engine.Load() }

// openStore is the engine's store, with the same rule.
func (a *App) openStore() store.Store {
	if e := a.engine.Load(); e != nil {
		return e.store
	}
	return nil
}

// adminService is what the admin API works on.
func (a *App) adminService() (*admin.Service, error) {
	e := a.openEngine()
	if e == nil {
		return nil, errors.New("anvil has not started yet, or has stopped")
	}
	return &admin.Service{Store: e.store, NewID: newID, Unrouted: e.worker.Unrouted}, nil
}

var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)
