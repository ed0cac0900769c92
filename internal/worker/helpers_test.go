package worker

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/caddy-anvil/anvil/internal/deliver"
	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of a test; a test that reaches it has failed.
const patience = 30 * time.Second

func newID() event.ID { return uuid.Must(uuid.NewV7()) }

// watched is a real store that tells when something may have changed in it, counts calls, and can fail on demand.
type watched struct {
	store.Store
	mu      sync.Mutex
	changed chan struct{} // closed and made anew after each call
	calls   map[string]int
	// answered is the number of the latest call that has ended, counted as calls are.
	answered map[string]int
	// before and after a call they may turn it into an error; after means that the reply was lost.
	before, after func(call string) error
	// leased counts the leases by endpoint.
	leased map[string]int
	holder map[store.Lease]string
	now    func() time.Time
}

// openStore opens a store whose clock stands still but for Advance: nothing becomes due, and no lease runs out, because
// the machine is slow.
func openStore(t testing.TB) *watched {
	t.Helper()
	opened := time.Now()
	return openStoreBy(t, func() time.Time { return opened })
}

func openStoreBy(t testing.TB, now func() time.Time) *watched {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "anvil.db"), Log: zap.NewNop(), Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	w := watch(s)
	w.now = now
	return w
}

func watch(s store.Store) *watched {
	return &watched{
		Store: s, changed: make(chan struct{}), calls: map[string]int{}, answered: map[string]int{},
		leased: map[string]int{}, holder: map[store.Lease]string{},
	}
}

// set changes the store's behaviour, f runs under its lock.
func (w *watched) set(f func(w *watched)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w)
}

func (w *watched) count(call string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[call]
}

func (w *watched) touch() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *watched) do(call string, f func() error) error {
	w.mu.Lock()
	w.calls[call]++
	number, before, after := w.calls[call], w.before, w.after
	w.mu.Unlock()
	defer w.touch()
	defer w.set(func(w *watched) { w.answered[call] = max(w.answered[call], number) })
	if before != nil {
		if err := before(call); err != nil {
			return err
		}
	}
	err := f()
	if err == nil && after != nil {
		err = after(call)
	}
	return err
}

func (w *watched) Claim(ctx context.Context, c store.Claim) (got store.Claimed, err error) {
	err = w.do("claim", func() error { got, err = w.Store.Claim(ctx, c); return err })
	if err != nil {
		return store.Claimed{}, err
	}
	w.set(func(w *watched) {
		for _, j := range got.Jobs {
			lane := store.LaneID{Queue: j.Job.Queue, Endpoint: j.Job.Endpoint}
			w.holder[store.Lease{Job: j.Job.ID, Token: c.Token, Attempt: j.Job.Attempts, Lane: lane}] = j.Job.Endpoint
			w.leased[j.Job.Endpoint]++
		}
	})
	return got, nil
}

// ended notes that a lease is being given up.
func (w *watched) ended(l store.Lease) {
	w.set(func(w *watched) {
		if endpoint, ok := w.holder[l]; ok {
			delete(w.holder, l)
			w.leased[endpoint]--
		}
	})
}

func (w *watched) Finish(ctx context.Context, f store.Finish) (lost bool, err error) {
	w.ended(f.Lease)
	err = w.do("finish", func() error { lost, err = w.Store.Finish(ctx, f); return err })
	return lost, err
}

func (w *watched) Release(ctx context.Context, l store.Lease) (lost bool, err error) {
	w.ended(l)
	err = w.do("release", func() error { lost, err = w.Store.Release(ctx, l); return err })
	return lost, err
}

func (w *watched) Renew(ctx context.Context, l []store.Lease, d time.Duration) (lost []store.Lease, err error) {
	err = w.do("renew", func() error { lost, err = w.Store.Renew(ctx, l, d); return err })
	return lost, err
}

func (w *watched) Recover(ctx context.Context) (got store.Recovered, err error) {
	err = w.do("recover", func() error { got, err = w.Store.Recover(ctx); return err })
	return got, err
}

func (w *watched) Check(ctx context.Context) error {
	return w.do("check", func() error { return w.Store.Check(ctx) })
}

func (w *watched) Configured(ctx context.Context, l []store.LaneID) error {
	return w.do("configured", func() error { return w.Store.Configured(ctx, l) })
}

func (w *watched) Orphans(ctx context.Context, after time.Duration, limit int) (killed []event.Job, err error) {
	err = w.do("orphans", func() error { killed, err = w.Store.Orphans(ctx, after, limit); return err })
	return killed, err
}

func (w *watched) Prune(ctx context.Context, r store.Retention) (more bool, err error) {
	err = w.do("prune", func() error { more, err = w.Store.Prune(ctx, r); return err })
	return more, err
}

// until waits for a condition, which is looked at after each call of the engine to the store.
func (w *watched) until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for {
		w.mu.Lock()
		changed := w.changed
		w.mu.Unlock()
		if cond() {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// untilNext waits until a call that begins after now has ended.
func (w *watched) untilNext(t testing.TB, call string) {
	t.Helper()
	begun := w.count(call)
	w.until(t, "another "+call+" has ended", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.answered[call] > begun
	})
}

// job returns a job with its ledger.
func (w *watched) lanes(t testing.TB) []store.LaneStats {
	t.Helper()
	stats, err := w.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return stats.Lanes
}

func (w *watched) job(t testing.TB, id event.ID) (event.Job, []event.Attempt) {
	t.Helper()
	j, ledger, err := w.Job(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	return j, ledger
}

func (w *watched) untilState(t testing.TB, id event.ID, want event.State) (event.Job, []event.Attempt) {
	t.Helper()
	w.until(t, fmt.Sprintf("the job is %s", want), func() bool { j, _ := w.job(t, id); return j.State == want })
	return w.job(t, id)
}

// untilAttempts waits until a job is pending again with n rows in its ledger.
func (w *watched) untilAttempts(t testing.TB, id event.ID, n int) (event.Job, []event.Attempt) {
	t.Helper()
	w.until(t, fmt.Sprintf("attempt %d has failed", n), func() bool {
		j, ledger := w.job(t, id)
		return j.State == event.Pending && len(ledger) == n
	})
	return w.job(t, id)
}

// accept stores an event with a job for each lane.
func accept(t testing.TB, s store.Store, body string, lanes ...store.LaneID) []event.ID {
	t.Helper()
	p := event.Payload{Method: "POST", Scheme: "https", Host: "hooks.test", URI: "/in?secret=u1", Body: []byte(body), Headers: []event.Header{
		{Name: "X-Test", Value: "kept"},
	}}
	a := store.Accept{Event: event.Event{ID: newID(), Source: "src", Verified: true, Payload: p.Encode()}}
	ids := make([]event.ID, len(lanes))
	for i, l := range lanes {
		ids[i] = newID()
		a.Jobs = append(a.Jobs, store.NewJob{ID: ids[i], Queue: l.Queue, Endpoint: l.Endpoint})
	}
	if _, err := s.Accept(context.Background(), a); err != nil {
		t.Fatal(err)
	}
	return ids
}

func lane(name string) store.LaneID { return store.LaneID{Queue: "webhooks", Endpoint: "src/" + name} }

// endpoint is "src/<name>" in queue webhooks with the default schedule and two slots. Attempts end by an answer or by
// being cut, none by its time.
func endpoint(name, url string, change ...func(*Endpoint)) Endpoint {
	ep := Endpoint{
		Identity: "src/" + name, Queue: "webhooks", URL: url, Timeout: time.Hour, Concurrency: 2, Retry: DefaultRetry(),
	}
	for _, f := range change {
		f(&ep)
	}
	return ep
}

func settings(eps ...Endpoint) Settings {
	s := Settings{Workers: true, DrainTimeout: time.Hour, OrphanAfter: 24 * time.Hour, Endpoints: map[string]Endpoint{}}
	for _, ep := range eps {
		s.Endpoints[ep.Identity] = ep
	}
	s.Retention.Default = store.StateRetention{}
	for i := range s.Retention.Default {
		s.Retention.Default[i] = 1000 * time.Hour
	}
	return s
}

// start runs an engine on s until the test ends.
func start(t testing.TB, s store.Store, change ...func(*Config)) *Engine {
	t.Helper()
	client := deliver.NewClient(deliver.Options{})
	// No test passes because somebody happened to look: every job has to be woken, due or waited for.
	c := Config{Store: s, Client: client, NewID: newID, Every: Intervals{Recover: 50 * time.Millisecond, Poll: time.Hour}}
	for _, f := range change {
		f(&c)
	}
	e := New(c)
	e.Start()
	t.Cleanup(func() {
		e.Stop(context.Background())
		client.Close()
	})
	return e
}

// upstream is an endpoint that remembers what it got.
type upstream struct {
	url  string
	mu   sync.Mutex
	hits []hit
	now  int // under way
	most int // under way at once
}

type hit struct {
	body    string
	jobID   string
	attempt string
	header  http.Header
}

// newUpstream answers the n-th request (from 1) with what answer returns; it may block until the client leaves.
func newUpstream(t testing.TB, answer func(n int, r *http.Request) (status int)) *upstream {
	t.Helper()
	u := &upstream{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		u.mu.Lock()
		u.hits = append(u.hits, hit{string(body), r.Header.Get("Anvil-Job-Id"), r.Header.Get("Anvil-Attempt"), r.Header})
		n := len(u.hits)
		u.now++
		u.most = max(u.most, u.now)
		u.mu.Unlock()
		status := answer(n, r)
		u.mu.Lock()
		u.now--
		u.mu.Unlock()
		w.WriteHeader(status)
	}))
	t.Cleanup(s.Close)
	u.url = s.URL
	return u
}

// always answers with the statuses in turn, the last one for ever.
func always(statuses ...int) func(int, *http.Request) int {
	return func(n int, _ *http.Request) int { return statuses[min(n, len(statuses))-1] }
}

// hang answers nothing until the client leaves.
func hang(_ int, r *http.Request) int { <-r.Context().Done(); return http.StatusServiceUnavailable }

// atOnce is how many requests were under way at once since the last call, and how many are.
func (u *upstream) atOnce() (most, now int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	most, u.most = u.most, u.now
	return most, u.now
}

func (u *upstream) got() []hit {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]hit(nil), u.hits...)
}

// recorder is an Observer that remembers.
type recorder struct {
	mu       sync.Mutex
	attempts map[event.Class]int
	dead     map[event.Reason]int
}

func (r *recorder) Attempt(_, _ string, c event.Class) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.attempts == nil {
		r.attempts = map[event.Class]int{}
	}
	r.attempts[c]++
}

func (r *recorder) Dead(_, _ string, why event.Reason) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead == nil {
		r.dead = map[event.Reason]int{}
	}
	r.dead[why]++
}

func (r *recorder) attempted(c event.Class) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.attempts[c]
}

func (r *recorder) deaths(why event.Reason) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dead[why]
}
