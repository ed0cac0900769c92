package redis_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/redistest"
	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/store/redis"
)

// The client sends again what it got no reply to. Whatever the transition, that must be as if the reply had come.
func TestATransitionWhoseReplyWasLostAnswersAsIfItHadNot(t *testing.T) {
	noLeaks(t)
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	direct := on(t, server)
	s := on(t, server, func(o *redis.Options) { o.Addr = proxy.Addr() })
	everything(t, s) // every script is known to the server by its hash

	accepted := webhook()
	for _, c := range []struct {
		name string
		do   func(ctx context.Context) (wrong any, err error)
	}{
		{"accept", func(ctx context.Context) (any, error) {
			got, err := s.Accept(ctx, accepted)
			return got.Duplicate || got.EventID != accepted.Event.ID, err
		}},
		{"claim", func(ctx context.Context) (any, error) {
			got, err := s.Claim(ctx, store.Claim{Token: newID(), Lease: time.Minute, Lanes: []store.Lane{{LaneID: hooks, Max: 1}}})
			return len(got.Jobs) != 1 || got.Jobs[0].Job.Attempts != 1, err
		}},
		{"finish", func(ctx context.Context) (any, error) {
			_, leases := claim(t, direct, 1)
			lost, err := s.Finish(ctx, outcome(leases[0], event.Pending))
			_, rows, _ := direct.Job(ctx, leases[0].Job)
			return lost || len(rows) != 1, err
		}},
		{"release", func(ctx context.Context) (any, error) {
			_, leases := claim(t, direct, 1)
			return s.Release(ctx, leases[0])
		}},
		{"renew", func(ctx context.Context) (any, error) {
			_, leases := claim(t, direct, 1)
			lost, err := s.Renew(ctx, leases, time.Minute)
			return len(lost) > 0, err
		}},
		{"cancel", func(ctx context.Context) (any, error) {
			ok, err := s.Cancel(ctx, accept(t, direct).Jobs[0].ID)
			return !ok, err
		}},
		{"replay", func(ctx context.Context) (any, error) {
			id := kill(t, direct)
			got, err := s.Replay(ctx, id, newID(), false)
			e, jobs, _ := direct.Event(ctx, mustJob(t, direct, id).EventID)
			return !got.Replayed || len(jobs) != 2, errors.Join(err, eventError(e))
		}},
	} {
		for range 3 {
			accept(t, direct)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		lost := proxy.LoseReply("evalsha")
		wrong, err := c.do(ctx)
		cancel()
		if err != nil || wrong != false {
			t.Errorf("%s: wrong %v, error %v", c.name, wrong, err)
		}
		select {
		case <-lost:
		case <-time.After(time.Minute): // the client may see the end of its connection first
			t.Errorf("%s: no reply was lost", c.name)
		}
	}
}

func mustJob(t *testing.T, s *redis.Store, id event.ID) event.Job {
	t.Helper()
	j, _, err := s.Job(t.Context(), id)
	must(t, err)
	return j
}

func eventError(e event.Event) error {
	if e.ID == (event.ID{}) {
		return errors.New("the event is gone")
	}
	return nil
}

func TestAServerThatForgotTheScriptsIsToldThemAgain(t *testing.T) {
	noLeaks(t)
	server := redistest.Start(t)
	s := on(t, server)
	accept(t, s)
	server.Do("SCRIPT", "FLUSH")
	accept(t, s)
}

func TestAfterAFlushNewEventsAreStoredAtOnce(t *testing.T) {
	noLeaks(t)
	server := redistest.Start(t)
	s := on(t, server)
	a := accept(t, s)
	_, leases := claim(t, s, 1)
	server.Do("FLUSHALL")
	if lost, err := s.Finish(t.Context(), outcome(leases[0], event.Delivered)); err != nil || !lost {
		t.Errorf("finishing a job that Redis has lost: lost %v, %v", lost, err)
	}
	acceptThis(t, s, a) // its key counts as free
	if jobs, _ := claim(t, s, 10); len(jobs) != 1 {
		t.Errorf("%d jobs are due, want 1", len(jobs))
	}
	if layout := server.Do("HGET", "{anvil}:meta", "layout"); layout != "1" {
		t.Errorf("the layout is recorded as %v", layout)
	}
}

func TestASilentServerIsGivenUpInTimeAndUsedAgainWhenItAnswers(t *testing.T) {
	noLeaks(t)
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	s := on(t, server, func(o *redis.Options) { o.Addr, o.AcceptTimeout = proxy.Addr(), 200*time.Millisecond })
	eventually(t, s)
	proxy.Freeze()
	for range 3 {
		_, err := s.Accept(t.Context(), webhook())
		if !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("a silent server: %v, want %v", err, store.ErrUnavailable)
		}
	}
	proxy.Thaw()
	eventually(t, s)
}

func TestAServerThatIsDownIsNoReasonNotToOpen(t *testing.T) {
	noLeaks(t, whileDown)
	server := redistest.Start(t)
	server.Kill()
	s := on(t, server, func(o *redis.Options) { o.AcceptTimeout = redis.DefaultAcceptTimeout })
	if _, err := s.Accept(t.Context(), webhook()); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("accepting: %v, want %v", err, store.ErrUnavailable)
	}
	if err := s.Check(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("check: %v, want %v", err, store.ErrUnavailable)
	}
	server.Start()
	eventually(t, s)
}

// Caddy and Redis come back together after a power cut, and Redis has a large file to read.
func TestAServerThatLoadsItsDataIsNoReasonNotToOpen(t *testing.T) {
	noLeaks(t)
	// Microseconds for each command in the file: long enough for any machine, and cut short when the test has seen it.
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always", "--key-load-delay", "500")
	before := on(t, server)
	a := accept(t, before)
	must(t, before.Close())
	server.Do("EVAL", "for i = 1, 100000 do redis.call('SET', 'ballast:' .. i, 'x') end", 0)
	server.Kill()
	server.StartNoWait()
	loading := func() bool {
		err := server.Client().Ping(t.Context()).Err()
		return err != nil && strings.HasPrefix(err.Error(), "LOADING ")
	}
	wait(t, loading)

	s := on(t, server, func(o *redis.Options) { o.AcceptTimeout = 200 * time.Millisecond })
	_, err := s.Accept(t.Context(), webhook())
	checked := s.Check(t.Context())
	if !loading() {
		t.Fatal("the server had loaded before the test was through")
	}
	if !errors.Is(err, store.ErrUnavailable) || !errors.Is(checked, store.ErrUnavailable) {
		t.Errorf("accepting: %v, check: %v; want %v", err, checked, store.ErrUnavailable)
	}
	server.Do("CONFIG", "SET", "key-load-delay", 0)
	eventually(t, s)
	if jobs, _ := claim(t, on(t, server), 1); len(jobs) != 1 || jobs[0].Job.ID != a.Jobs[0].ID {
		t.Errorf("claimed %+v, want the job from before the restart", jobs)
	}
}

// eventually accepts until the store takes it; some connections may have to find out that they are dead.
func eventually(t *testing.T, s *redis.Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		_, err := s.Accept(ctx, webhook())
		if err == nil {
			return
		}
		if ctx.Err() != nil || !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("the store does not come back: %v", err)
		}
	}
}

func TestAnEventThatRedisEvictedLeavesNoJobStuck(t *testing.T) {
	noLeaks(t)
	server := redistest.Start(t)
	s := on(t, server)
	a := accept(t, s)
	server.Do("DEL", "{anvil}:event:"+string(a.Event.ID[:]))
	jobs, leases := claim(t, s, 1)
	if len(jobs) != 1 || jobs[0].Event.Payload != nil {
		t.Fatalf("claimed %+v, want the job without payload", jobs)
	}
	finish(t, s, outcome(leases[0], event.Dead))
	pruneAll(t, s, 0)
	if _, _, err := s.Job(t.Context(), a.Jobs[0].ID); err == nil {
		t.Error("the job is still there after pruning")
	}
}

func TestAKeyWhoseEventRedisEvictedIsFree(t *testing.T) {
	noLeaks(t)
	server := redistest.Start(t)
	s := on(t, server)
	a := accept(t, s)
	server.Do("DEL", "{anvil}:event:"+string(a.Event.ID[:]), "{anvil}:jobs")
	again := webhook()
	again.Keys = a.Keys
	acceptThis(t, s, again)
	claim(t, s, 10) // the entry without a job is skipped
}
