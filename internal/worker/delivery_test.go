package worker

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-anvil/anvil/internal/deliver"
	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

func classes(ledger []event.Attempt) (out []event.Class) {
	for _, a := range ledger {
		out = append(out, a.Class)
	}
	return out
}

func TestAcceptedJobIsDelivered(t *testing.T) {
	s := openStore(t)
	up := newUpstream(t, always(200))
	seen := &recorder{}
	start(t, s, func(c *Config) { c.Observer = seen }).Attach(settings(endpoint("a", up.url)))
	id := accept(t, s, "\x00\xff body", lane("a"))[0]

	j, ledger := s.untilState(t, id, event.Delivered)
	if len(ledger) != 1 || ledger[0].Number != 1 || ledger[0].Status != 200 || ledger[0].Class != event.ClassDelivered {
		t.Errorf("ledger %+v, want one delivered attempt", ledger)
	}
	if got := up.got(); len(got) != 1 || got[0].body != "\x00\xff body" || got[0].jobID != id.String() || got[0].attempt != "1" {
		t.Errorf("the endpoint got %+v", got)
	}
	if j.Failures != 0 || seen.attempts[event.ClassDelivered] != 1 {
		t.Errorf("%d failures, observed %v", j.Failures, seen.attempts)
	}
}

func TestAttachLooksForJobsThatAreWaiting(t *testing.T) {
	s := openStore(t)
	up := newUpstream(t, always(200))
	e := start(t, s)
	id := accept(t, s, "x", lane("a"))[0]
	s.until(t, "nothing but the attach can wake the engine", func() bool { return len(s.Wake()) == 0 })
	e.Attach(settings(endpoint("a", up.url)))
	s.untilState(t, id, event.Delivered)
}

func TestFailingJobFollowsItsScheduleAndDies(t *testing.T) {
	s := openStore(t)
	up := newUpstream(t, always(500))
	seen := &recorder{}
	start(t, s, func(c *Config) { c.Observer = seen }).Attach(settings(endpoint("a", up.url)))
	id := accept(t, s, "precious", lane("a"))[0]

	opened, skipped := s.now(), time.Duration(0)
	for i, delay := range DefaultRetry().Delays {
		j, _ := s.untilAttempts(t, id, i+1)
		// Counted from the end of the attempt, by the store's clock.
		if wait := j.RunAt.Sub(opened.Add(skipped).Truncate(time.Microsecond)); wait != delay {
			t.Errorf("after failure %d the job waits %s, want %s", i+1, wait, delay)
		}
		s.Advance(delay)
		skipped += delay
	}
	j, ledger := s.untilState(t, id, event.Dead)
	if j.DeadReason != event.ReasonAttempts || j.LastError != "HTTP 500 Internal Server Error" || j.Failures != 4 || len(ledger) != 4 {
		t.Errorf("dead job %+v with %d rows", j, len(ledger))
	}
	s.until(t, "the death is observed", func() bool { return seen.deaths(event.ReasonAttempts) == 1 })

	// Nothing is lost with the death, and nothing revives the job.
	ev, _, err := s.Event(t.Context(), j.EventID)
	if err != nil {
		t.Fatal(err)
	}
	p, err := event.DecodePayload(ev.Payload)
	if err != nil || string(p.Body) != "precious" || p.Get("X-Test") != "kept" {
		t.Errorf("the dead job's request is %+v, %v", p, err)
	}
	claims := s.count("claim")
	s.Advance(time.Hour) // which wakes the engine
	s.until(t, "the engine has looked again", func() bool { return s.count("claim") > claims })
	if j, _ := s.job(t, id); j.State != event.Dead || len(up.got()) != 4 {
		t.Errorf("the job is %s after %d attempts, want dead after 4", j.State, len(up.got()))
	}
}

func TestSuccessOnTheThirdAttemptIsDeliveredWithThreeRows(t *testing.T) {
	s := openStore(t)
	up := newUpstream(t, always(500, 503, 204))
	start(t, s).Attach(settings(endpoint("a", up.url)))
	id := accept(t, s, "x", lane("a"))[0]
	for n := 1; n <= 2; n++ {
		s.untilAttempts(t, id, n)
		s.Advance(time.Minute)
	}
	_, ledger := s.untilState(t, id, event.Delivered)
	if want := []event.Class{event.ClassStatus, event.ClassStatus, event.ClassDelivered}; !slices.Equal(classes(ledger), want) {
		t.Errorf("ledger %v, want %v", classes(ledger), want)
	}
	for i, h := range up.got() {
		if h.jobID != id.String() || h.attempt != strconv.Itoa(i+1) {
			t.Errorf("request %d is attempt %s of job %s", i+1, h.attempt, h.jobID)
		}
	}
}

// A worker's crash is no failure of the endpoint, which gets all the tries of its schedule.
func TestALostLifeUsesUpNoRetry(t *testing.T) {
	s := openStore(t)
	id := accept(t, s, "x", lane("a"))[0]
	claimByHand(t, s, lane("a"), time.Second)
	s.Advance(time.Second)
	start(t, s).Attach(settings(endpoint("a", newUpstream(t, always(500)).url, func(ep *Endpoint) {
		ep.Retry = RetryPolicy{Delays: []time.Duration{time.Hour}}
	})))
	s.until(t, "the attempt has failed", func() bool { _, ledger := s.job(t, id); return len(ledger) == 2 })
	if j, ledger := s.job(t, id); j.State != event.Pending || ledger[0].Class != event.ClassLost {
		t.Errorf("after a lost life and one failure the job is %s with rows %v, want pending", j.State, classes(ledger))
	}
}

func TestGoneDiesAtOnce(t *testing.T) {
	s := openStore(t)
	start(t, s).Attach(settings(endpoint("a", newUpstream(t, always(410)).url)))
	id := accept(t, s, "x", lane("a"))[0]
	j, ledger := s.untilState(t, id, event.Dead)
	if j.DeadReason != event.ReasonGone || len(ledger) != 1 {
		t.Errorf("reason %q after %d attempts, want gone after 1", j.DeadReason, len(ledger))
	}
}

func TestRetryAfterMovesTheNextAttempt(t *testing.T) {
	s := openStore(t)
	client := senderFunc(func(_ context.Context, r deliver.Request) deliver.Result {
		return deliver.Result{Sent: true, RetryAfter: 2 * time.Minute, Attempt: event.Attempt{Number: r.Attempt, Class: event.ClassStatus, Status: 503, StartedAt: s.now()}}
	})
	start(t, s, func(c *Config) { c.Client = client }).Attach(settings(endpoint("a", "http://unused")))
	id := accept(t, s, "x", lane("a"))[0]
	j, ledger := s.untilAttempts(t, id, 1)
	if wait := j.RunAt.Sub(ledger[0].StartedAt); wait != 2*time.Minute {
		t.Errorf("the job waits %s, want 2m", wait)
	}
}

type senderFunc func(context.Context, deliver.Request) deliver.Result

func (f senderFunc) Send(ctx context.Context, r deliver.Request) deliver.Result { return f(ctx, r) }

func TestReplayRunsAFreshScheduleAndLeavesTheOldJobAlone(t *testing.T) {
	s := openStore(t)
	up := newUpstream(t, always(500, 500, 500, 500, 200))
	start(t, s).Attach(settings(endpoint("a", up.url, func(ep *Endpoint) {
		ep.Retry = RetryPolicy{Delays: []time.Duration{time.Second}}
	})))
	old := accept(t, s, "body", lane("a"))[0]
	s.untilAttempts(t, old, 1)
	s.Advance(time.Second)
	s.untilState(t, old, event.Dead)

	// The copy fails twice and is dead with a record of its own run; its copy is delivered.
	second, third := newID(), newID()
	if r, err := s.Replay(t.Context(), old, second, false); err != nil || !r.Replayed {
		t.Fatalf("replay: %+v, %v", r, err)
	}
	s.untilAttempts(t, second, 1)
	s.Advance(time.Second)
	if j, ledger := s.untilState(t, second, event.Dead); j.Failures != 2 || len(ledger) != 2 || j.ReplayOf != old || ledger[0].Number != 1 {
		t.Errorf("the copy died as %+v with %d rows", j, len(ledger))
	}
	if r, err := s.Replay(t.Context(), second, third, false); err != nil || !r.Replayed {
		t.Fatalf("second replay: %+v, %v", r, err)
	}
	s.untilState(t, third, event.Delivered)
	if j, ledger := s.job(t, old); j.State != event.Replayed || len(ledger) != 2 {
		t.Errorf("the first job is %s with %d rows", j.State, len(ledger))
	}
	want := []event.ID{old, old, second, second, third}
	for i, h := range up.got() {
		if h.jobID != want[i].String() || h.body != "body" {
			t.Errorf("request %d is of job %s with body %q", i+1, h.jobID, h.body)
		}
	}
}

func TestReplayWithoutWorkersWaitsForThem(t *testing.T) {
	s := openStore(t)
	up := newUpstream(t, always(410, 200))
	e := start(t, s)
	detach := e.Attach(settings(endpoint("a", up.url)))
	old := accept(t, s, "x", lane("a"))[0]
	s.untilState(t, old, event.Dead)

	off := settings(endpoint("a", up.url))
	off.Workers = false
	e.Attach(off)
	detach()
	if !e.awaitQuiet(t.Context()) {
		t.Fatal("the last claim does not end")
	}
	copied := newID()
	claims := s.count("claim")
	if _, err := s.Replay(t.Context(), old, copied, false); err != nil {
		t.Fatal(err)
	}
	s.untilNext(t, "recover")
	if j, _ := s.job(t, copied); j.State != event.Pending || s.count("claim") != claims || e.Running() {
		t.Errorf("the copy is %s after %d claims, running %v", j.State, s.count("claim")-claims, e.Running())
	}
	e.Attach(settings(endpoint("a", up.url)))
	s.untilState(t, copied, event.Delivered)
}

func TestFanOutRetriesOnlyTheEndpointThatFailed(t *testing.T) {
	s := openStore(t)
	a, b := newUpstream(t, always(500, 500, 500, 500, 500, 200)), newUpstream(t, always(200))
	e := start(t, s)
	e.Attach(settings(
		endpoint("a", a.url, func(ep *Endpoint) { ep.Retry, _ = NamedRetry("patient") }), endpoint("b", b.url)))
	ids := accept(t, s, "x", lane("a"), lane("b"))
	s.untilState(t, ids[1], event.Delivered)
	for n := 1; n <= 5; n++ {
		s.untilAttempts(t, ids[0], n)
		s.Advance(time.Hour)
	}
	s.untilState(t, ids[0], event.Delivered)
	if len(a.got()) != 6 || len(b.got()) != 1 {
		t.Errorf("A got %d requests and B %d, want 6 and 1", len(a.got()), len(b.got()))
	}
}

func TestStatesNeverGoBackwards(t *testing.T) {
	s := openStoreBy(t, time.Now)
	up := newUpstream(t, func(n int, _ *http.Request) int { return 200 + 300*(n%2) })
	start(t, s).Attach(settings(endpoint("a", up.url, func(ep *Endpoint) {
		ep.Concurrency, ep.Retry = 8, RetryPolicy{Delays: slices.Repeat([]time.Duration{time.Millisecond}, 50)}
	})))
	ids := make([]event.ID, 100)
	for i := range ids {
		ids[i] = accept(t, s, "x", lane("a"))[0]
	}
	attempts, final := map[event.ID]int{}, map[event.ID]event.State{}
	s.until(t, "all are delivered", func() bool {
		jobs, _, err := s.Jobs(t.Context(), store.JobFilter{Limit: len(ids)})
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			if before, ended := final[j.ID]; ended && j.State != before {
				t.Fatalf("a job went from %s to %s", before, j.State)
			}
			if j.Attempts < attempts[j.ID] {
				t.Fatalf("a job went from attempt %d to %d", attempts[j.ID], j.Attempts)
			}
			attempts[j.ID] = j.Attempts
			if j.State.Final() {
				final[j.ID] = j.State
			}
		}
		return len(final) == len(ids)
	})
}

func TestEveryEventSucceedsOnceAcrossARestart(t *testing.T) {
	s := openStoreBy(t, time.Now)
	answered := map[string]int{}
	var up *upstream
	up = newUpstream(t, func(_ int, r *http.Request) int {
		up.mu.Lock()
		defer up.mu.Unlock()
		id := r.Header.Get("Anvil-Job-Id")
		answered[id]++
		if answered[id] == 1 {
			return 500
		}
		return 200
	})
	ep := endpoint("a", up.url, func(ep *Endpoint) {
		ep.Concurrency, ep.Retry = 8, RetryPolicy{Delays: slices.Repeat([]time.Duration{time.Millisecond}, 9)}
	})
	first := start(t, s)
	first.Attach(settings(ep))
	ids := make([]event.ID, 200)
	for i := range ids {
		ids[i] = accept(t, s, "x", lane("a"))[0]
	}
	s.until(t, "the first engine is in the middle", func() bool { return len(up.got()) > 100 })
	first.Drain(t.Context())
	first.Stop(t.Context())
	start(t, s).Attach(settings(ep))
	for _, id := range ids {
		s.untilState(t, id, event.Delivered)
	}
	want, got := map[string]int{}, answered
	for _, id := range ids {
		want[id.String()] = 2
	}
	up.mu.Lock()
	defer up.mu.Unlock()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests for each job (-want +got):\n%s", diff)
	}
}

func TestPanicInAnAttemptIsAFailedAttempt(t *testing.T) {
	s := openStore(t)
	client := senderFunc(func(_ context.Context, r deliver.Request) deliver.Result {
		if r.Attempt == 1 {
			panic("boom")
		}
		return deliver.Result{Sent: true, Attempt: event.Attempt{Number: r.Attempt, Class: event.ClassDelivered, Status: 200}}
	})
	start(t, s, func(c *Config) { c.Client = client }).Attach(settings(endpoint("a", "http://unused")))
	id := accept(t, s, "x", lane("a"))[0]
	if _, ledger := s.untilAttempts(t, id, 1); ledger[0].Class != event.ClassConfig || ledger[0].StartedAt.IsZero() {
		t.Errorf("ledger %+v, want a config failure", ledger)
	}
	s.Advance(time.Second)
	s.untilState(t, id, event.Delivered)
}
