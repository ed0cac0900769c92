package worker

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-anvil/anvil/internal/deliver"
	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

func TestDrainLetsAttemptsFinishAndClaimsNoMore(t *testing.T) {
	s := openStore(t)
	arrived, release := make(chan struct{}, 1), make(chan struct{})
	up := newUpstream(t, func(int, *http.Request) int { arrived <- struct{}{}; <-release; return 200 })
	e := start(t, s)
	e.Attach(settings(endpoint("a", up.url, func(ep *Endpoint) { ep.Concurrency = 1 })))
	first := accept(t, s, "x", lane("a"))[0]
	<-arrived
	second := accept(t, s, "x", lane("a"))[0]
	drained := make(chan struct{})
	go func() { e.Drain(context.Background()); close(drained) }()
	s.until(t, "draining has begun", func() bool { s.touch(); return !e.Running() })
	close(release)
	<-drained
	if j, ledger := s.job(t, first); j.State != event.Delivered || len(ledger) != 1 {
		t.Errorf("the job under way is %s with %d rows", j.State, len(ledger))
	}
	if j, ledger := s.job(t, second); j.State != event.Pending || j.Attempts != 0 || len(ledger) != 0 {
		t.Errorf("the waiting job is %s with %d attempts", j.State, j.Attempts)
	}
	if n := len(up.got()); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

// stillSending is a sender that gets no answer: it ends when it is cut.
func stillSending(sending chan<- struct{}, res deliver.Result) Sender {
	return senderFunc(func(ctx context.Context, r deliver.Request) deliver.Result {
		sending <- struct{}{}
		<-ctx.Done()
		res.Attempt.Number, res.Attempt.Class = r.Attempt, event.ClassInterrupted
		return res
	})
}

// The times that draining keeps to are those of a clock that stands still while anything has something to do.
func TestDrainCutsWhatTakesTooLongAndItIsDueAtOnce(t *testing.T) {
	for name, drain := range map[string]func(e *Engine){
		"by the settings' timeout": func(e *Engine) { e.Drain(context.Background()) },
		"by the caller's context": func(e *Engine) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			e.Drain(ctx)
		},
		"by Stop": func(e *Engine) { e.Stop(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := openStore(t)
				sending := make(chan struct{}, 1)
				e := start(t, s, func(c *Config) { c.Client = stillSending(sending, deliver.Result{Sent: true}) })
				s.set(func(w *watched) {
					w.before = func(call string) error {
						if call == "finish" {
							<-time.After(cutTime / 2) // it waits for an outcome that takes its time
						}
						return nil
					}
				})
				set := settings(endpoint("a", "http://unused"))
				set.DrainTimeout = 10 * time.Millisecond
				e.Attach(set)
				id := accept(t, s, "x", lane("a"))[0]
				<-sending
				began := time.Now()
				drain(e)
				if took := time.Since(began); took > set.DrainTimeout+cutTime {
					t.Errorf("it took %s", took)
				}
				j, ledger := s.job(t, id)
				if j.State != event.Pending || j.Failures != 0 || j.RunAt.After(s.now()) {
					t.Errorf("the job is %s with %d failures, due %s", j.State, j.Failures, j.RunAt)
				}
				if len(ledger) != 1 || ledger[0].Class != event.ClassInterrupted {
					t.Errorf("ledger %+v, want one interrupted attempt", ledger)
				}
			})
		})
	}
}

func TestDrainGivesBackWhatWasNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		sending := make(chan struct{}, 1)
		seen := &recorder{}
		e := start(t, s, func(c *Config) { c.Client, c.Observer = stillSending(sending, deliver.Result{}), seen })
		set := settings(endpoint("a", "http://unused"))
		set.DrainTimeout = 0
		e.Attach(set)
		id := accept(t, s, "x", lane("a"))[0]
		<-sending // still connecting
		e.Drain(t.Context())
		j, ledger := s.job(t, id)
		if j.State != event.Pending || j.Attempts != 0 || len(ledger) != 0 || len(seen.attempts) != 0 {
			t.Errorf("the job is %s with %d attempts and %d rows; observed %v", j.State, j.Attempts, len(ledger), seen.attempts)
		}
	})
}

func TestJobsClaimedAsDrainingBeginsAreGivenBackUnsent(t *testing.T) {
	s := openStore(t)
	up := newUpstream(t, always(200))
	e := start(t, s)
	s.set(func(w *watched) {
		w.after = func(call string) error {
			if call == "claim" {
				e.setDraining()
			}
			return nil
		}
	})
	id := accept(t, s, "x", lane("a"))[0]
	e.Attach(settings(endpoint("a", up.url)))
	s.until(t, "the job was given back", func() bool { return s.count("release") == 1 })
	e.Drain(t.Context())
	if j, _ := s.job(t, id); j.State != event.Pending || j.Attempts != 0 || len(up.got()) != 0 {
		t.Errorf("the job is %s with %d attempts; %d requests", j.State, j.Attempts, len(up.got()))
	}
}

func TestDrainWritesOutcomesThatTheStoreDidNotTake(t *testing.T) {
	s := openStore(t)
	end := outage(s, store.ErrUnavailable, "finish")
	e := start(t, s)
	e.Attach(settings(endpoint("a", newUpstream(t, always(200)).url)))
	id := accept(t, s, "x", lane("a"))[0]
	s.until(t, "the outcome was tried", func() bool { return s.count("finish") > 1 })
	drained := make(chan struct{})
	go func() { e.Drain(context.Background()); close(drained) }()
	s.until(t, "draining has begun", func() bool { s.touch(); return !e.Running() })
	end()
	<-drained
	if j, _ := s.job(t, id); j.State != event.Delivered {
		t.Errorf("after the drain the job is %s", j.State)
	}
}

func TestDrainEndsThoughTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		outage(s, store.ErrUnavailable, "claim", "finish", "release", "renew")
		e := start(t, s)
		set := settings(endpoint("a", "http://unused"))
		set.DrainTimeout = 50 * time.Millisecond
		e.Attach(set)
		s.until(t, "claiming has failed", func() bool { return s.count("claim") > 1 })
		began := time.Now()
		e.Drain(context.Background())
		e.Stop(context.Background())
		if took := time.Since(began); took > set.DrainTimeout+2*cutTime {
			t.Errorf("it took %s", took)
		}
	})
}

func TestAttachAfterDrainWorksAgain(t *testing.T) {
	s := openStore(t)
	up := newUpstream(t, always(200))
	e := start(t, s)
	e.Attach(settings(endpoint("a", up.url)))
	e.Drain(t.Context())
	e.Attach(settings(endpoint("a", up.url)))
	s.untilState(t, accept(t, s, "x", lane("a"))[0], event.Delivered)
	if !e.Running() {
		t.Error("it does not count as running")
	}
}

func TestStartAndStopMayBeCalledTwiceAndInAnyOrder(t *testing.T) {
	s := openStore(t)
	e := New(Config{Store: s, NewID: newID, Client: senderFunc(nil)})
	e.Start()
	e.Start()
	e.Stop(t.Context())
	e.Stop(t.Context())
	e.Start()
	detach := e.Attach(settings(endpoint("a", "http://unused")))
	if e.Running() {
		t.Error("a stopped engine counts as running")
	}
	detach()
	New(Config{Store: s, NewID: newID, Client: senderFunc(nil)}).Stop(t.Context())
}
