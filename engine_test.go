package anvil

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/worker"
)

// named is a store's module that notes whose options were applied.
type named struct {
	*SQLiteStore
	name    string
	applied *[]string
}

func (n named) apply(store.Store) { *n.applied = append(*n.applied, n.name) }

// openEngine gives an engine that nobody has attached to. The test has to end it.
func openEngine(t *testing.T, module storeModule) *engine {
	t.Helper()
	e, err := acquireEngine(t.Context(), module, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := engines.Delete(module.poolKey()); err != nil {
			t.Error(err)
		}
	})
	return e
}

func TestTheNewestConfigurationRulesOverAStoreAndAfterItTheOneBefore(t *testing.T) {
	var applied []string
	db := &SQLiteStore{path: filepath.Join(t.TempDir(), "anvil.db")}
	e := openEngine(t, named{db, "", &applied})
	type configuration struct {
		*attachment
		logs *observer.ObservedLogs
	}
	attach := func(name string) configuration {
		core, logs := observer.New(zapcore.InfoLevel)
		return configuration{e.attach(named{db, name, &applied}, zap.New(core), []string{name}, worker.Settings{}), logs}
	}
	rules := func(c configuration, name string) {
		t.Helper()
		if len(applied) == 0 || applied[len(applied)-1] != name {
			t.Errorf("the store had the options of %q in turn, want those of %q now", applied, name)
		}
		if got := e.configuredQueues(); !slices.Equal(got, []string{name}) {
			t.Errorf("the queues are %q, want those of %q", got, name)
		}
		before := c.logs.Len()
		e.log.Info("a line")
		if c.logs.Len() != before+1 {
			t.Errorf("the engine does not write to the log of %q, which rules", name)
		}
	}
	first := attach("first")
	rules(first, "first")
	rejected := attach("rejected")
	rules(rejected, "rejected")
	e.detach(rejected.attachment)
	rules(first, "first")
	second := attach("second")
	e.detach(first.attachment)
	rules(second, "second")
	e.detach(second.attachment)
}

// As at a reload to another store: what is under way gets the drain time of the configuration that began it.
func TestWhenTheLastConfigurationLeavesAStoreItsAttemptsMayEnd(t *testing.T) {
	arrived, answer := make(chan struct{}, 2), make(chan struct{})
	up := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		select {
		case <-answer:
		case <-r.Context().Done():
		}
	}))
	defer up.Close()
	db := &SQLiteStore{path: filepath.Join(t.TempDir(), "anvil.db")}
	e := openEngine(t, db)
	a := e.attach(db, zap.NewNop(), nil, worker.Settings{Workers: true, DrainTimeout: time.Hour, Endpoints: map[string]worker.Endpoint{
		"shop/default": {Identity: "shop/default", Queue: "webhooks", URL: up.URL},
	}})
	job := newID()
	_, err := e.store.Accept(t.Context(), store.Accept{
		Event: event.Event{ID: newID(), Source: "shop", Payload: (&event.Payload{Method: http.MethodPost, Scheme: "http", Host: "shop", URI: "/"}).Encode()},
		Jobs:  []store.NewJob{{ID: job, Queue: "webhooks", Endpoint: "shop/default"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	<-arrived
	e.detach(a)
	close(answer)
	select {
	case <-e.drained:
	case <-time.After(patience):
		t.Fatal("nothing began to drain")
	}
	if j, rows, err := e.store.Job(t.Context(), job); err != nil || j.State != event.Delivered || len(rows) != 1 {
		t.Errorf("the job is %v with %d attempts, %v; want it to be delivered by one", j.State, len(rows), err)
	}
}

// uncounting is a store that writes and cannot count.
type uncounting struct {
	store.Store
	err error
}

func (uncounting) Check(context.Context) error { return nil }

func (u uncounting) Stats(context.Context) (store.Stats, error) { return store.Stats{}, u.err }

func TestAStoreThatCannotBeReadIsNotReady(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		fit  bool
	}{
		{"broken", fmt.Errorf("%w: disk I/O error", store.ErrUnavailable), false},
		{"too slow to count", fmt.Errorf("counting: %w", context.DeadlineExceeded), true},
		{"counted", nil, true},
	} {
		s := uncounting{err: c.err}
		e := engine{store: s, worker: worker.New(worker.Config{Store: s})}
		if got := e.check().err; (got == nil) != c.fit {
			t.Errorf("%s: the check of the store gave %v", c.name, got)
		}
	}
}

// balking is an app that does not start. It comes after or before the other apps, as Caddy pleases.
type balking struct {
	ctx    caddy.Context
	rulers [][]string // the queues of the configuration that ruled, each time the app anvil had started before
}

var balks balking

func init() { caddy.RegisterModule(new(balking)) }

func (*balking) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "balking", New: func() caddy.Module { return new(balking) }}
}

func (b *balking) Provision(ctx caddy.Context) error {
	b.ctx = ctx
	return nil
}

func (b *balking) Start() error {
	app, err := appOf(b.ctx)
	if err != nil {
		return err
	}
	select {
	case <-app.started:
		balks.rulers = append(balks.rulers, app.openEngine().configuredQueues())
	default:
	}
	return errors.New("balked")
}

func (*balking) Stop() error { return nil }

// What waits in the store would otherwise go to its endpoints, die by its orphan_after or leave by its retention.
func TestAConfigurationThatIsRejectedWhileItStartsHasNeverRuled(t *testing.T) {
	s := newSite(t)
	s.mustLoad("anvil shop {\nverify none\ndeliver localhost:1\n}", "queue old {\nconcurrency 1\n}")
	rejected := fmt.Sprintf(`{"admin":{"disabled":true,"config":{"persist":false}},"apps":{"balking":{},"anvil":{`+
		`"store":{"module":"sqlite","path":%q},"queues":{"new":{}}}}}`, s.store)
	balks.rulers = nil
	for range 1000 { // one is enough in two
		if err := caddy.Load([]byte(rejected), true); err == nil || !strings.Contains(err.Error(), "balked") {
			t.Fatalf("loading gave %v", err)
		}
		if len(balks.rulers) > 0 {
			break
		}
	}
	if len(balks.rulers) == 0 || !slices.Contains(balks.rulers[0], "old") || slices.Contains(balks.rulers[0], "new") {
		t.Errorf("queues of who ruled meanwhile: %q, want those of the configuration that runs", balks.rulers)
	}
	if r := s.post("x"); r.status != 202 {
		t.Errorf("afterwards a webhook is answered %d %s", r.status, r.body)
	}
}

// Any module may emit an event of the name by which Caddy says that a configuration is in force.
func TestAConfigurationRulesOnceHoweverOftenItIsSaidToHaveStarted(t *testing.T) {
	new(App).rule()
	s := newSite(t)
	s.mustLoad("anvil shop {\nverify none\n}", "")
	app := running(t)
	app.rule()
	if n := len(app.openEngine().attached); n != 1 {
		t.Errorf("%d configurations hold the workers, want one", n)
	}
}
