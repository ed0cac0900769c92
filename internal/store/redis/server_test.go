package redis_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/redistest"
	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/store/redis"
)

func TestANewerLayoutIsRefusedWithBothVersions(t *testing.T) {
	server := redistest.Start(t)
	running := on(t, server)
	accept(t, running)
	server.Do("HSET", "{anvil}:meta", "layout", "7")

	err := refusal(t, redis.Options{Addr: server.Addr(), Prefix: "anvil"})
	if !strings.Contains(err.Error(), "version 7") || !strings.Contains(err.Error(), "version 1") {
		t.Errorf("opening: %v, want both versions", err)
	}
	before := server.Do("DBSIZE")
	_, err = running.Accept(t.Context(), webhook())
	if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "version 7") {
		t.Errorf("accepting by an instance that was there before: %v", err)
	}
	if after := server.Do("DBSIZE"); after != before {
		t.Errorf("%v keys, %v before: it has written into the newer layout", after, before)
	}
}

// refusal is why a store does not open. At a server that is too slow to be looked at in time, one does.
func refusal(t *testing.T, o redis.Options) (why error) {
	t.Helper()
	wait(t, func() bool {
		s, err := redis.Open(t.Context(), o)
		if err == nil {
			must(t, s.Close())
		}
		why = err
		return err != nil
	})
	return why
}

func TestRiskySettingsOfTheServerAreWarnedOf(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"evicting": {[]string{"--appendonly", "yes", "--maxmemory-policy", "allkeys-lru"}, "maxmemory-policy allkeys-lru"},
		"volatile": {[]string{"--appendonly", "yes", "--maxmemory-policy", "volatile-ttl"}, "maxmemory-policy volatile-ttl"},
		"no aof":   {[]string{"--appendonly", "no"}, "appendonly no"},
		"none":     {[]string{"--appendonly", "yes"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t, c.args...)
			var s *redis.Store
			var logs *observer.ObservedLogs
			wait(t, func() bool {
				var core zapcore.Core
				core, logs = observer.New(zap.InfoLevel)
				s = on(t, server, func(o *redis.Options) { o.Log = zap.New(core) })
				return logs.FilterMessage("Redis answers").Len() == 1 // it may have been too slow to be looked at
			})
			logs = logs.Filter(func(e observer.LoggedEntry) bool { return e.Level >= zap.WarnLevel })
			st, err := s.Stats(t.Context())
			must(t, err)
			if got := strings.Join(st.Warnings, "\n"); c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("stats warn %q, want %q", got, c.want)
			}
			if n := logs.FilterMessageSnippet(c.want).Len(); c.want != "" && n != 1 || c.want == "" && n != 0 {
				t.Errorf("%d log lines: %v", n, logs.All())
			}
		})
	}
}

func TestNewWorkIsRefusedBeforeTheServerIsOutOfMemoryAndTheRestGoesOn(t *testing.T) {
	for _, replicas := range []int{0, 1} {
		t.Run(fmt.Sprintf("replicas %d", replicas), func(t *testing.T) {
			server := redistest.Start(t, "--maxmemory", "32mb")
			for range replicas {
				redistest.StartReplica(t, server)
			}
			outOfMemory(t, server, on(t, server, func(o *redis.Options) { o.Replicas = replicas }))
		})
	}
}

func outOfMemory(t *testing.T, server *redistest.Server, s *redis.Store) {
	t.Helper()
	a := accept(t, s)
	second := accept(t, s)
	third := accept(t, s)
	keyless := webhook() // known by its id alone
	keyless.Keys, keyless.Jobs[0].Endpoint = nil, "github/nobody"
	acceptThis(t, s, keyless)
	for usedMemory(t, server) < 29_500_000 {
		server.Do("APPEND", "foreign", strings.Repeat("x", 1<<16))
		server.Do("WAIT", server.Info("replication", "connected_slaves"), 1000) // else the replica's buffer is what fills the memory
	}

	refused := func(err error) bool { return errors.Is(err, store.ErrFull) }
	wait(t, func() bool { _, err := s.Accept(t.Context(), webhook()); return refused(err) })
	if used := usedMemory(t, server); used >= 32<<20 {
		t.Fatalf("%d bytes are used: this is the server's limit, not ours", used)
	}

	// Beyond the server's own limit as well: what is stored is worked off.
	for full := false; !full; {
		full = server.Client().Append(t.Context(), "foreign", strings.Repeat("x", 1<<19)).Err() != nil
	}
	if err := s.Configured(t.Context(), []store.LaneID{hooks}); err != nil {
		t.Errorf("noting lanes: %v", err)
	}
	copied := webhook()
	copied.Keys = a.Keys
	if got, err := s.Accept(t.Context(), copied); err != nil || !got.Duplicate {
		t.Errorf("a duplicate: %+v, %v", got, err)
	}
	acceptThis(t, s, keyless) // sent again
	_, leases := claim(t, s, 1)
	if lost, err := s.Renew(t.Context(), leases, time.Minute); err != nil || len(lost) > 0 {
		t.Errorf("renewing: %v, %v", lost, err)
	}
	if lost, err := s.Release(t.Context(), leases[0]); err != nil || lost {
		t.Errorf("releasing: %v, %v", lost, err)
	}
	_, leases = claim(t, s, 3) // the released one is the last
	finish(t, s, outcome(leases[0], event.Dead))
	finish(t, s, outcome(leases[1], event.Delivered))
	copyID := newID()
	if got, err := s.Replay(t.Context(), second.Jobs[0].ID, copyID, false); err != nil || !got.Replayed {
		t.Errorf("replaying: %+v, %v", got, err)
	}
	s.Advance(time.Minute)
	if r, err := s.Recover(t.Context()); err != nil || len(r.Returned) != 1 {
		t.Errorf("recovering: %+v, %v", r, err)
	}
	if ok, err := s.Cancel(t.Context(), copyID); err != nil || !ok {
		t.Errorf("cancelling: %v, %v", ok, err)
	}
	if err := s.Configured(t.Context(), []store.LaneID{hooks}); err != nil {
		t.Errorf("noting lanes: %v", err)
	}
	if killed, err := s.Orphans(t.Context(), 30*time.Second, 10); err != nil || len(killed) != 1 {
		t.Errorf("orphans: %+v, %v", killed, err)
	}
	// Delivered jobs leave early while memory is short.
	wait(t, func() bool {
		pruneAll(t, s, time.Hour)

		_, _, err := s.Job(t.Context(), third.Jobs[0].ID)
		return errors.Is(err, store.ErrPruned)
	})

	server.Do("DEL", "foreign")
	wait(t, func() bool { _, err := s.Accept(t.Context(), webhook()); return err == nil })
}

// What memory there is was looked at a moment ago, so the server may be the first to say that there is none.
func TestAServerThatHasBecomeFullSinceTheLastLookSaysSo(t *testing.T) {
	server := redistest.Start(t)
	s := on(t, server)
	accept(t, s)
	server.Do("CONFIG", "SET", "maxmemory", 1)
	if _, err := s.Accept(t.Context(), webhook()); !errors.Is(err, store.ErrFull) {
		t.Errorf("accepting: %v, want %v", err, store.ErrFull)
	}
}

func usedMemory(t *testing.T, server *redistest.Server) int64 {
	t.Helper()
	n, err := strconv.ParseInt(server.Info("memory", "used_memory"), 10, 64)
	must(t, err)
	return n
}

// wait tries until it is true.
func wait(t *testing.T, cond func() bool) {
	t.Helper()
	if !came(cond) {
		t.Fatal("it did not happen")
	}
}

// came reports whether cond came to hold. It has longer than the minute after which a store looks at its server again.
func came(cond func() bool) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(90 * time.Second); !cond(); <-tick.C {
		if time.Now().After(deadline) {
			return cond()
		}
	}
	return true
}

func TestMemoryOfAPendingJob(t *testing.T) {
	server := redistest.Start(t)
	s := on(t, server)
	payload := (&event.Payload{
		Method: "POST", Scheme: "https", Host: "hooks.example.com", URI: "/github", ClientIP: "192.0.2.1", Body: make([]byte, 1024),
		Headers: []event.Header{
			{Name: "Accept", Value: "*/*"},
			{Name: "Content-Type", Value: "application/json"},
			{Name: "User-Agent", Value: "GitHub-Hookshot/abcdef0"},
			{Name: "X-Github-Delivery", Value: "72d3162e-cc78-11e3-81ab-4c9367dc0958"},
			{Name: "X-Github-Event", Value: "push"},
			{Name: "X-Hub-Signature-256", Value: "sha256=" + strings.Repeat("0", 64)},
		},
	}).Encode()
	const jobs = 10_000
	before := usedMemory(t, server)
	for range jobs {
		a := webhook()
		a.Event.Payload = payload
		acceptThis(t, s, a)
	}
	each := (usedMemory(t, server) - before) / jobs
	t.Logf("%d bytes for a pending job with 1 KiB of body, %d bytes with its headers", each, len(payload))
	if each > 2560 {
		t.Errorf("%d bytes for each pending job, want at most 2560", each)
	}
}
