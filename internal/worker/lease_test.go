package worker

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-anvil/anvil/internal/deliver"
	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// claimByHand leases the one due job of a lane as a worker would that then dies.
func claimByHand(t *testing.T, s store.Store, l store.LaneID, lease time.Duration) store.Lease {
	t.Helper()
	token := newID()
	got, err := s.Claim(context.Background(), store.Claim{Token: token, Lanes: []store.Lane{{LaneID: l, Max: 1}}, Lease: lease})
	if err != nil || len(got.Jobs) != 1 {
		t.Fatalf("claim: %+v, %v", got, err)
	}
	return store.Lease{Job: got.Jobs[0].Job.ID, Token: token, Attempt: got.Jobs[0].Job.Attempts}
}

func TestEndpointSlowerThanTheLeaseIsCalledOnce(t *testing.T) {
	s := openStore(t)
	arrived, answer := make(chan struct{}, 2), make(chan struct{})
	up := newUpstream(t, func(int, *http.Request) int { arrived <- struct{}{}; <-answer; return 200 })
	start(t, s, func(c *Config) { c.Every.Renew, c.Every.Recover = 10*time.Millisecond, 10*time.Millisecond }).
		Attach(settings(endpoint("a", up.url)))
	id := accept(t, s, "x", lane("a"))[0]
	<-arrived
	passThreeLeases(t, s)
	close(answer)
	_, ledger := s.untilState(t, id, event.Delivered)
	if len(up.got()) != 1 || len(ledger) != 1 {
		t.Errorf("%d requests, %d rows, want one each", len(up.got()), len(ledger))
	}
}

// passThreeLeases moves the clock while every lease is renewed in between, and looked for when it could have run out.
func passThreeLeases(t *testing.T, s *watched) {
	t.Helper()
	for range 6 {
		s.untilNext(t, "renew")
		s.Advance(20 * time.Second)
		s.untilNext(t, "recover")
	}
}

func TestJobOfADeadWorkerRunsAgainAndTheLostLifeIsCounted(t *testing.T) {
	s := openStore(t)
	id := accept(t, s, "x", lane("a"))[0]
	claimByHand(t, s, lane("a"), 30*time.Second)
	up := newUpstream(t, always(200))
	start(t, s).Attach(settings(endpoint("a", up.url)))
	s.untilNext(t, "recover")
	if n := len(up.got()); n != 0 {
		t.Fatalf("%d requests while another worker has the lease", n)
	}
	s.Advance(30 * time.Second)
	j, ledger := s.untilState(t, id, event.Delivered)
	if want := []event.Class{event.ClassLost, event.ClassDelivered}; !slices.Equal(classes(ledger), want) || j.Failures != 0 {
		t.Errorf("ledger %v with %d failures, want %v and none", classes(ledger), j.Failures, want)
	}
	if got := up.got(); len(got) != 1 || got[0].attempt != "2" {
		t.Errorf("requests %+v, want attempt 2", got)
	}
}

func TestJobThatKillsItsWorkersIsDeadInTheEnd(t *testing.T) {
	s := openStore(t)
	seen := &recorder{}
	off := settings(endpoint("a", "http://unused"))
	off.Workers = false
	start(t, s, func(c *Config) { c.Observer = seen }).Attach(off)
	id := accept(t, s, "precious", lane("a"))[0]
	for n := 1; n <= store.MaxLost; n++ {
		claimByHand(t, s, lane("a"), time.Second)
		s.Advance(time.Second)
		s.until(t, "the lost life is recovered", func() bool { _, ledger := s.job(t, id); return len(ledger) == n })
	}
	j, ledger := s.untilState(t, id, event.Dead)
	if j.DeadReason != event.ReasonCrashLoop {
		t.Errorf("reason %q, want crash_loop", j.DeadReason)
	}
	s.until(t, "the death is observed", func() bool { return seen.deaths(event.ReasonCrashLoop) == 1 })

	// Nothing is lost with this death either, and the job can be replayed.
	for i, a := range ledger {
		if a.Number != i+1 || a.Class != event.ClassLost || a.StartedAt.IsZero() {
			t.Errorf("row %d of the ledger is %+v, want a lost life", i+1, a)
		}
	}
	ev, _, err := s.Event(t.Context(), j.EventID)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := event.DecodePayload(ev.Payload); err != nil || string(p.Body) != "precious" || p.Get("X-Test") != "kept" {
		t.Errorf("the dead job's request is %+v, %v", p, err)
	}
	if r, err := s.Replay(t.Context(), id, newID(), false); err != nil || !r.Replayed {
		t.Errorf("replay: %+v, %v", r, err)
	}
}

func TestLostLeaseEndsTheAttemptAndDropsItsOutcome(t *testing.T) {
	s := openStore(t)
	core, logs := observer.New(zapcore.WarnLevel)
	seen := &recorder{}
	arrived := make(chan struct{}, 2)
	up := newUpstream(t, func(n int, r *http.Request) int {
		arrived <- struct{}{}
		if n == 1 {
			return hang(n, r)
		}
		return 200
	})
	e := start(t, s, func(c *Config) {
		c.Log, c.Observer = zap.New(core), seen
		c.Every.Renew, c.Every.Lease, c.Every.Recover = 10*time.Millisecond, time.Minute, time.Hour
	})
	untilFirstLook(t, s)
	e.Attach(settings(endpoint("a", up.url)))
	id := accept(t, s, "x", lane("a"))[0]
	<-arrived
	// Another instance finds the lease run out before this one renews it again.
	s.untilNext(t, "renew")
	for ended := false; !ended; {
		s.Advance(2 * time.Minute)
		got, err := s.Recover(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ended = len(got.Returned) == 1
	}
	_, ledger := s.untilState(t, id, event.Delivered)
	if want := []event.Class{event.ClassLost, event.ClassDelivered}; !slices.Equal(classes(ledger), want) {
		t.Errorf("ledger %v, want %v", classes(ledger), want)
	}
	s.until(t, "the drop is logged", func() bool {
		s.touch()
		return logs.FilterMessageSnippet("lease was lost").Len() == 1
	})
	// It has no row in the ledger, and whoever recovered it has counted it as lost.
	if n := seen.attempted(event.ClassInterrupted); n != 0 || logs.FilterMessage("attempt failed").Len() != 0 {
		t.Errorf("the dropped outcome was counted %d times, and logged as a failure %d times", n, logs.FilterMessage("attempt failed").Len())
	}
}

// untilFirstLook waits until an engine has looked for lost lives as it starts, so that it leaves later ones to the test.
func untilFirstLook(t *testing.T, s *watched) {
	t.Helper()
	s.until(t, "the first look is over", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.answered["recover"] > 0
	})
}

func TestOutcomeAfterTheLeaseChangesNothing(t *testing.T) {
	// The first attempt answers 200 at the very moment that its job was given to another worker.
	s := openStore(t)
	recovered := make(chan struct{})
	up := newUpstream(t, func(n int, _ *http.Request) int {
		if n == 1 {
			s.Advance(31 * time.Second)
			if _, err := s.Recover(context.Background()); err != nil { // as another instance would
				t.Error(err)
			}
			<-recovered
		}
		return 200
	})
	e := start(t, s, func(c *Config) { c.Every.Renew, c.Every.Recover = time.Hour, time.Hour })
	untilFirstLook(t, s)
	e.Attach(settings(endpoint("a", up.url)))
	id := accept(t, s, "x", lane("a"))[0]
	_, ledger := s.untilState(t, id, event.Delivered)
	close(recovered)
	s.until(t, "the late outcome was tried", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.answered["finish"] == 2
	})
	j, after := s.job(t, id)
	if len(ledger) != 2 || len(after) != 2 || j.State != event.Delivered || len(up.got()) != 2 {
		t.Errorf("%d rows, then %d; job %s; %d requests", len(ledger), len(after), j.State, len(up.got()))
	}
}

func TestAPauseLongerThanALeaseRepeatsNothing(t *testing.T) {
	// As after SIGSTOP and SIGCONT: the leases have run out, and recovering comes before the next renewal.
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		sending, over := make(chan struct{}, 2), make(chan struct{})
		client := senderFunc(func(_ context.Context, r deliver.Request) deliver.Result {
			sending <- struct{}{}
			<-over
			return deliver.Result{Sent: true, Attempt: event.Attempt{Number: r.Attempt, Class: event.ClassDelivered, Status: 200}}
		})
		start(t, s, func(c *Config) {
			c.Client, c.Every.Renew, c.Every.Recover = client, time.Hour, 10*time.Millisecond
		}).Attach(settings(endpoint("a", "http://unused")))
		id := accept(t, s, "x", lane("a"))[0]
		<-sending
		// A look takes no time on this clock, so that the pause comes between two of them.
		<-time.After(5 * time.Millisecond)
		s.Advance(time.Minute)
		s.untilNext(t, "recover")
		close(over)
		if _, ledger := s.untilState(t, id, event.Delivered); len(ledger) != 1 || len(sending) != 0 {
			t.Errorf("ledger %+v, %d further attempts; want one attempt", ledger, len(sending))
		}
	})
}

func TestUnansweredClaimIsAskedAgainAndDeliversOnce(t *testing.T) {
	s := openStore(t)
	lostReplies := 0
	s.set(func(w *watched) {
		w.after = func(call string) error {
			if call == "claim" && lostReplies < 2 {
				lostReplies++
				return store.ErrUnavailable
			}
			return nil
		}
	})
	up := newUpstream(t, always(200))
	id := accept(t, s, "x", lane("a"))[0]
	start(t, s).Attach(settings(endpoint("a", up.url)))
	_, ledger := s.untilState(t, id, event.Delivered)
	if len(ledger) != 1 || ledger[0].Number != 1 || len(up.got()) != 1 {
		t.Errorf("ledger %+v, %d requests, want one attempt", ledger, len(up.got()))
	}
}

func TestUnwrittenOutcomesKeepTheirLeases(t *testing.T) {
	s := openStore(t)
	down := true
	s.set(func(w *watched) {
		w.before = func(call string) error {
			if call == "finish" {
				s.mu.Lock()
				defer s.mu.Unlock()
				if down {
					return store.ErrFull
				}
			}
			return nil
		}
	})
	up := newUpstream(t, always(200))
	start(t, s, func(c *Config) { c.Every.Renew, c.Every.Recover = 10*time.Millisecond, 10*time.Millisecond }).
		Attach(settings(endpoint("a", up.url)))
	id := accept(t, s, "x", lane("a"))[0]
	s.until(t, "the outcome was tried", func() bool { return s.count("finish") > 0 })
	passThreeLeases(t, s)
	s.set(func(*watched) { down = false })
	_, ledger := s.untilState(t, id, event.Delivered)
	if len(ledger) != 1 || len(up.got()) != 1 {
		t.Errorf("%d rows, %d requests, want one each", len(ledger), len(up.got()))
	}
}

var _ Sender = (*deliver.Client)(nil)
