package worker

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

func TestNewestSettingsRuleAndDetachFallsBack(t *testing.T) {
	s := openStore(t)
	one, two := newUpstream(t, always(200)), newUpstream(t, always(200))
	e := start(t, s)
	deliverOne := func() {
		t.Helper()
		s.untilState(t, accept(t, s, "x", lane("a"))[0], event.Delivered)
	}
	want := func(first, second int, running bool) {
		t.Helper()
		if len(one.got()) != first || len(two.got()) != second || e.Running() != running {
			t.Fatalf("requests %d and %d, running %v; want %d, %d, %v", len(one.got()), len(two.got()), e.Running(), first, second, running)
		}
	}
	want(0, 0, false)
	detachOne := e.Attach(settings(endpoint("a", one.url)))
	deliverOne()
	want(1, 0, true)
	detachTwo := e.Attach(settings(endpoint("a", two.url)))
	deliverOne()
	want(1, 1, true)
	detachTwo()
	detachTwo() // once more does no harm
	deliverOne()
	want(2, 1, true)
	// The usual reload: the newer ones are attached before the older are taken back.
	detachThree := e.Attach(settings(endpoint("a", two.url)))
	detachOne()
	deliverOne()
	want(2, 2, true)
	detachThree()
	want(2, 2, false)
}

func TestWithoutSettingsNothingIsClaimedAndLostLivesAreRecovered(t *testing.T) {
	s := openStore(t)
	start(t, s)
	id := accept(t, s, "x", lane("a"))[0]
	claimByHand(t, s, lane("a"), time.Second)
	s.Advance(time.Minute)
	if _, ledger := s.untilAttempts(t, id, 1); ledger[0].Class != event.ClassLost {
		t.Errorf("ledger %+v, want a lost life", ledger)
	}
	if n := s.count("claim"); n != 1 {
		t.Errorf("%d claims beside the test's own", n-1)
	}
	if s.count("orphans")+s.count("configured")+s.count("prune") != 0 {
		t.Error("lanes or retention were touched without settings")
	}
}

func TestChangedEndpointAppliesToQueuedJobs(t *testing.T) {
	s := openStore(t)
	broken, fixed := newUpstream(t, always(500)), newUpstream(t, always(200))
	e := start(t, s)
	detach := e.Attach(settings(endpoint("a", broken.url)))
	id := accept(t, s, "x", lane("a"))[0]
	s.untilAttempts(t, id, 1)
	e.Attach(settings(endpoint("a", fixed.url)))
	detach()
	s.Advance(time.Second)
	s.untilState(t, id, event.Delivered)
	if len(broken.got()) != 1 || len(fixed.got()) != 1 {
		t.Errorf("the old URL got %d requests and the new one %d, want 1 each", len(broken.got()), len(fixed.got()))
	}
}

func TestChangedScheduleAppliesToQueuedJobs(t *testing.T) {
	s := openStore(t)
	up := newUpstream(t, always(500))
	e := start(t, s)
	e.Attach(settings(endpoint("a", up.url)))
	id := accept(t, s, "x", lane("a"))[0]
	s.untilAttempts(t, id, 1)
	e.Attach(settings(endpoint("a", up.url, func(ep *Endpoint) { ep.Retry = RetryPolicy{} })))
	s.Advance(time.Second)
	if _, ledger := s.untilState(t, id, event.Dead); len(ledger) != 2 {
		t.Errorf("%d attempts, want the second to be the last", len(ledger))
	}
}

func TestReloadsUnderLoadLoseAndRepeatNothing(t *testing.T) {
	s := openStore(t)
	up := newUpstream(t, always(200))
	e := start(t, s)
	detach := e.Attach(settings(endpoint("a", up.url)))
	var ids []event.ID
	for range 20 {
		for range 10 {
			ids = append(ids, accept(t, s, "x", lane("a"))[0])
		}
		next := e.Attach(settings(endpoint("a", up.url)))
		detach()
		detach = next
	}
	for _, id := range ids {
		if _, ledger := s.untilState(t, id, event.Delivered); len(ledger) != 1 {
			t.Errorf("a job took %d attempts", len(ledger))
		}
	}
	if n := len(up.got()); n != len(ids) {
		t.Errorf("%d requests for %d jobs", n, len(ids))
	}
}

func TestJobsOfTheQueueThatAnEndpointHasLeftShareItsSlots(t *testing.T) {
	s := openStore(t)
	early, late := make(chan struct{}), make(chan struct{})
	up := newUpstream(t, func(n int, _ *http.Request) int {
		if n <= 2 {
			<-early
		} else {
			<-late
		}
		return 200
	})
	other := newUpstream(t, always(200))
	older := store.LaneID{Queue: "older", Endpoint: "src/a"}
	oldest := store.LaneID{Queue: "oldest", Endpoint: "src/a"}
	var ids []event.ID
	for range 5 {
		ids = append(ids, accept(t, s, "x", older)[0], accept(t, s, "x", oldest)[0], accept(t, s, "x", lane("a"))[0])
	}
	e := start(t, s)
	e.Attach(settings(endpoint("a", up.url), endpoint("b", other.url)))
	s.until(t, "all three queues are served", func() bool { return len(e.rules().lanes) == 4 })
	close(early)
	s.until(t, "the slots are taken again", func() bool { return len(up.got()) == 4 })
	for _, h := range up.got()[:2] {
		s.untilState(t, uuid.MustParse(h.jobID), event.Delivered)
	}
	// What wakes the engine for one endpoint makes it look for due jobs of them all.
	s.untilState(t, accept(t, s, "x", lane("b"))[0], event.Delivered)
	s.set(func(w *watched) {
		if n := w.leased["src/a"]; n != 2 {
			t.Errorf("%d jobs are taken for 2 slots", n)
		}
	})
	close(late)
	for _, id := range ids {
		s.untilState(t, id, event.Delivered)
	}
	if most, _ := up.atOnce(); most != 2 || len(up.got()) != len(ids) {
		t.Errorf("%d requests for %d jobs, %d at once in 2 slots", len(up.got()), len(ids), most)
	}
}

// longRunning makes e one that has run for so long that orphans are no longer spared. It is called before Attach.
func longRunning(e *Engine) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.began = e.began.Add(-orphanGrace)
}

func TestJobsOfAVanishedEndpointWaitAndHarmNobody(t *testing.T) {
	s := openStore(t)
	up := newUpstream(t, always(200))
	core, logs := observer.New(zapcore.WarnLevel)
	e := start(t, s, func(c *Config) { c.Log, c.Every.House = zap.New(core), 20*time.Millisecond })
	longRunning(e)
	var gone []event.ID
	for range 3 {
		gone = append(gone, accept(t, s, "x", lane("gone"))[0])
	}
	e.Attach(settings(endpoint("a", up.url)))
	for range 20 {
		s.untilState(t, accept(t, s, "x", lane("a"))[0], event.Delivered)
	}
	for range 3 {
		s.untilNext(t, "orphans")
	}
	if n := e.Unrouted(s.lanes(t)); n != 3 {
		t.Errorf("%d unrouted, want 3", n)
	}
	for _, id := range gone {
		if j, _ := s.job(t, id); j.State != event.Pending {
			t.Errorf("a job without an endpoint is %s", j.State)
		}
	}
	if n := logs.FilterMessageSnippet("not configured").Len(); n != 1 {
		t.Errorf("%d warnings for one attach, want 1", n)
	}
	back := newUpstream(t, always(200))
	e.Attach(settings(endpoint("a", up.url), endpoint("gone", back.url)))
	for _, id := range gone {
		s.untilState(t, id, event.Delivered)
	}
	if n := e.Unrouted(s.lanes(t)); n != 0 {
		t.Errorf("%d unrouted, want 0", n)
	}
}

func TestOrphansDieAfterTheirTime(t *testing.T) {
	s := openStore(t)
	seen := &recorder{}
	core, logs := observer.New(zapcore.ErrorLevel)
	up := newUpstream(t, hang)
	e := start(t, s, func(c *Config) { c.Log, c.Observer, c.Every.House = zap.New(core), seen, 20*time.Millisecond })
	longRunning(e)
	orphan := accept(t, s, "x", lane("gone"))[0]
	var known []event.ID
	for range 5 { // more than slots, so that some wait
		known = append(known, accept(t, s, "x", store.LaneID{Queue: "left", Endpoint: "src/a"})...)
	}
	e.Attach(settings(endpoint("a", up.url)))
	s.untilNext(t, "orphans")
	// Time leaps while nobody is between noting the lanes and looking for orphans.
	s.set(func(w *watched) {
		w.before = func(call string) error {
			if call == "configured" {
				s.set(func(w *watched) { w.before = nil })
				s.Advance(25 * time.Hour)
			}
			return nil
		}
	})
	if j, _ := s.untilState(t, orphan, event.Dead); j.DeadReason != event.ReasonNoEndpoint {
		t.Errorf("reason %q, want no_endpoint", j.DeadReason)
	}
	s.until(t, "the death is observed", func() bool { return seen.deaths(event.ReasonNoEndpoint) == 1 })
	s.until(t, "the death is logged", func() bool {
		return logs.FilterMessage("job is dead").FilterField(zap.Stringer("job_id", orphan)).Len() == 1
	})
	for _, id := range known {
		if j, _ := s.job(t, id); j.State.Final() {
			t.Errorf("a job in the queue that its endpoint has left is %s", j.State)
		}
	}
}

func TestWithoutWorkersTheStoreIsKeptInOrder(t *testing.T) {
	s := openStore(t)
	e := start(t, s, func(c *Config) { c.Every.Prune = 10 * time.Millisecond })
	off := settings(endpoint("a", "http://unused"))
	off.Workers = false
	off.Retention.Default[event.Cancelled] = time.Hour
	e.Attach(off)
	id := accept(t, s, "x", lane("a"))[0]
	if ok, err := s.Cancel(t.Context(), id); !ok || err != nil {
		t.Fatal(ok, err)
	}
	s.Advance(2 * time.Hour)
	s.until(t, "retention has taken the cancelled job", func() bool {
		_, _, err := s.Job(t.Context(), id)
		return err != nil
	})
	s.until(t, "the lanes are noted", func() bool { return s.count("configured") > 0 })
	if s.count("claim") != 0 || e.Running() {
		t.Errorf("%d claims, running %v", s.count("claim"), e.Running())
	}
}
