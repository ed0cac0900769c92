package redis_test

import (
	"errors"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/redistest"
	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/store/redis"
)

func TestAClaimThatIsCutShortLosesNoJob(t *testing.T) {
	server := redistest.Start(t)
	s := on(t, server)
	for range 5 {
		accept(t, s)
	}
	server.Do("SET", "{anvil}:leases", "not a sorted set")
	c := store.Claim{Token: newID(), Lanes: []store.Lane{{LaneID: hooks, Max: 5}}, Lease: 1}
	if _, err := s.Claim(t.Context(), c); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("claiming beside a key of a wrong type: %v, want %v", err, store.ErrUnavailable)
	}
	server.Do("DEL", "{anvil}:leases")
	if jobs, _ := claim(t, s, 10); len(jobs) != 5 {
		t.Errorf("%d jobs are due afterwards, want 5", len(jobs))
	}
}

func TestADamagedRecordIsReportedAndHoldsUpNobody(t *testing.T) {
	core, logs := observer.New(zap.ErrorLevel)
	server := redistest.Start(t)
	s := on(t, server, func(o *redis.Options) { o.Log = zap.New(core) })
	damaged := accept(t, s)
	accept(t, s)
	server.Do("HSET", "{anvil}:jobs", string(damaged.Jobs[0].ID[:]), "damaged")
	if jobs, _ := claim(t, s, 10); len(jobs) != 1 {
		t.Errorf("%d jobs were claimed, want the other one", len(jobs))
	}
	if logs.FilterMessageSnippet("cannot be read").Len() != 1 {
		t.Errorf("log: %v, want the damaged job named", logs.All())
	}
	if jobs, _, err := s.Jobs(t.Context(), store.JobFilter{Limit: 10}); err != nil || len(jobs) != 1 {
		t.Errorf("listed %d jobs, %v; want the other one", len(jobs), err)
	}
	if _, _, err := s.Job(t.Context(), damaged.Jobs[0].ID); err == nil {
		t.Error("the damaged job is shown as if it were none")
	}
}

func TestAnEventThatCannotBeReadHoldsUpNoOther(t *testing.T) {
	server := redistest.Start(t)
	s := on(t, server)
	bad := accept(t, s)
	for range 4 {
		accept(t, s)
	}
	key := "{anvil}:event:" + string(bad.Event.ID[:])
	server.Do("DEL", key)
	server.Do("HSET", key, "not", "a string")
	if jobs, _ := claim(t, s, 10); len(jobs) != 4 {
		t.Errorf("%d jobs were claimed, want the four others", len(jobs))
	}
	wantState(t, s, bad.Jobs[0].ID, event.Running) // until its lease ends
}

func TestCountsAreSetRightAfterRedisHasLostThem(t *testing.T) {
	server := redistest.Start(t)
	s := on(t, server)
	for range 6 {
		accept(t, s)
	}
	claim(t, s, 2)
	server.Do("HSET", "{anvil}:counts", "webhooks", 900, "webhooks\x00github/default\x000", -7, "webhooks\x00github/default\x001", 55)
	must(t, s.Configured(t.Context(), []store.LaneID{hooks}))
	st, err := s.Stats(t.Context())
	must(t, err)
	if n := st.Lanes[0].Jobs; n[event.Pending] != 4 || n[event.Running] != 2 {
		t.Errorf("counts %v, want 4 pending and 2 running", n)
	}
	a := webhook()
	a.Jobs[0].MaxPending = 7
	acceptThis(t, s, a)
	a = webhook()
	a.Jobs[0].MaxPending = 7
	if _, err := s.Accept(t.Context(), a); !errors.Is(err, store.ErrBacklog) {
		t.Errorf("the eighth: %v, want %v", err, store.ErrBacklog)
	}
}

func TestALaneThatIsNewWhileCountsAreSetRightCounts(t *testing.T) {
	server := redistest.Start(t)
	s := on(t, server)
	limited := func() store.Accept {
		a := webhook()
		a.Jobs[0].MaxPending = 3
		return a
	}
	acceptThis(t, s, limited())
	lines := monitor(t, server.Addr())
	must(t, s.Configured(t.Context(), []store.LaneID{hooks}))
	recount := lastScript(t, server, lines) // with the lanes of now
	if last := recount[len(recount)-1]; last != "webhooks\x00github/default" {
		t.Fatalf("the last script is for %q, want the lane: it does not set counts right", last)
	}

	for range 2 {
		a := limited()
		a.Jobs[0].Endpoint = "github/new"
		acceptThis(t, s, a)
	}
	server.Do(recount...)
	if _, err := s.Accept(t.Context(), limited()); !errors.Is(err, store.ErrBacklog) {
		t.Errorf("the fourth: %v, want %v", err, store.ErrBacklog)
	}

	server.Do("HSET", "{anvil}:counts", "webhooks", 900)
	must(t, s.Configured(t.Context(), []store.LaneID{hooks}))
	if n := server.Do("HGET", "{anvil}:counts", "webhooks"); n != "3" {
		t.Errorf("the queue has %v unfinished jobs after the next time, want 3", n)
	}
}

// lastScript is the last call of a script so far, as it can be sent again.
func lastScript(t *testing.T, server *redistest.Server, lines <-chan string) (call []any) {
	t.Helper()
	must(t, server.Client().Set(t.Context(), "the end", "1", 0).Err())
	for {
		words, lua := parseMonitor(t, <-lines)
		switch {
		case lua:
		case words[0] == "set" && words[1] == "the end":
			return call
		case words[0] == "evalsha", words[0] == "eval":
			call = call[:0]
			for _, w := range words {
				call = append(call, w)
			}
		}
	}
}

func TestAJobThatRedisHasLostTakesNoRoomInTheBacklog(t *testing.T) {
	server := redistest.Start(t)
	s := on(t, server)
	lost := accept(t, s)
	server.Do("HDEL", "{anvil}:jobs", string(lost.Jobs[0].ID[:]))
	if jobs, _ := claim(t, s, 10); len(jobs) != 0 {
		t.Errorf("%d jobs were claimed, want none", len(jobs))
	}
	a := webhook()
	a.Jobs[0].MaxPending = 1
	acceptThis(t, s, a)
}

func TestALargeWebhookHoldsUpNoSmallOne(t *testing.T) {
	server := redistest.Start(t, "--proto-max-bulk-len", "1mb")
	s := on(t, server)
	large := webhook()
	large.Event.Payload = make([]byte, 2<<20)
	refused := make(chan error, 1)
	go func() {
		_, err := s.Accept(t.Context(), large)
		refused <- err
	}()
	for range 20 {
		accept(t, s)
	}
	if err := <-refused; !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("what Redis cannot take: %v, want %v", err, store.ErrUnavailable)
	}
}
