package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-anvil/anvil/internal/deliver"
	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// quietStore has no jobs and answers every claim alike. It stands in for a real store where a minute has to pass on
// a clock of the test's own.
type quietStore struct {
	store.Store
	answer store.Claimed
	wake   chan struct{}
}

func (q *quietStore) Wake() <-chan struct{} { return q.wake }

func (q *quietStore) Claim(context.Context, store.Claim) (store.Claimed, error) {
	return q.answer, nil
}

func (q *quietStore) Recover(context.Context) (store.Recovered, error) { return store.Recovered{}, nil }
func (q *quietStore) Check(context.Context) error                      { return nil }
func (q *quietStore) Stats(context.Context) (store.Stats, error)       { return store.Stats{}, nil }
func (q *quietStore) Configured(context.Context, []store.LaneID) error { return nil }
func (q *quietStore) Prune(context.Context, store.Retention) (more bool, err error) {
	return false, nil
}

func (q *quietStore) Orphans(context.Context, time.Duration, int) ([]event.Job, error) {
	return nil, nil
}

// inAMinute runs an idle engine for a minute and returns how often it called the store.
func inAMinute(t *testing.T, answer store.Claimed) (calls map[string]int) {
	synctest.Test(t, func(t *testing.T) {
		s := watch(&quietStore{answer: answer, wake: make(chan struct{})})
		e := New(Config{Store: s, NewID: newID, Client: senderFunc(nil)})
		e.Start()
		e.Attach(settings(endpoint("a", "http://unused"), endpoint("b", "http://unused")))
		<-time.After(time.Minute)
		e.Stop(t.Context())
		calls = s.calls
	})
	return calls
}

func TestIdleEngineAsksTheStoreAtMostOnceASecond(t *testing.T) {
	calls := inAMinute(t, store.Claimed{})
	if n := calls["claim"]; n < 15 || n > 62 {
		t.Errorf("%d claims in an idle minute", n)
	}
	for call, most := range map[string]int{"recover": 13, "prune": 60, "configured": 2, "orphans": 0, "renew": 0, "finish": 0} {
		if n := calls[call]; n > most || most > 0 && n == 0 {
			t.Errorf("%d calls of %s in an idle minute, want 1 to %d", n, call, most)
		}
	}
}

func TestStrangeAnswersOfAStoreDoNotMakeItSpin(t *testing.T) {
	for name, c := range map[string]struct {
		answer store.Claimed
		most   int
	}{
		"due in a nanosecond, for ever":  {store.Claimed{Next: 1}, 61_000},
		"more, and never a job":          {store.Claimed{More: true}, 130},
		"more, due now, and never a job": {store.Claimed{More: true, Next: 1}, 130},
		"due in a year":                  {store.Claimed{Next: 365 * 24 * time.Hour}, 62},
	} {
		if n := inAMinute(t, c.answer)["claim"]; n > c.most || n < 15 {
			t.Errorf("%s: %d claims in a minute, want 15 to %d", name, n, c.most)
		}
	}
}

func TestNextDueTimeIsKept(t *testing.T) {
	// Every answer says that the next job is due in 100ms.
	if n := inAMinute(t, store.Claimed{Next: 100 * time.Millisecond})["claim"]; n < 590 || n > 610 {
		t.Errorf("%d claims in a minute, want 600", n)
	}
}

// After an outage of all instances, those that are not back yet have not said which lanes they know.
func TestOrphansAreSparedWhileOtherInstancesMayStillBeComingBack(t *testing.T) {
	for _, c := range []struct{ orphanAfter, spared time.Duration }{
		{orphanAfter: 24 * time.Hour, spared: 10 * time.Minute},
		{orphanAfter: 10 * time.Minute, spared: 10 * time.Minute},
		{orphanAfter: 3 * time.Minute, spared: 3 * time.Minute},
		{orphanAfter: 30 * time.Second, spared: 30 * time.Second},
	} {
		t.Run(c.orphanAfter.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := watch(&quietStore{wake: make(chan struct{})})
				e := New(Config{Store: s, NewID: newID, Client: senderFunc(nil)})
				e.Start()
				mine := settings(endpoint("a", "http://unused"))
				mine.OrphanAfter = c.orphanAfter
				detach := e.Attach(mine)
				<-time.After(c.spared / 2)
				e.Attach(mine) // a reload does not begin the time again
				detach()
				<-time.After(c.spared/2 - time.Second)
				if n := s.count("orphans"); n != 0 {
					t.Errorf("orphans were killed %d times in the first %s", n, c.spared)
				}
				if n := s.count("configured"); n < 3 {
					t.Errorf("the lanes were noted %d times in the first %s", n, c.spared)
				}
				<-time.After(2*time.Second + time.Minute)
				if n := s.count("orphans"); n == 0 {
					t.Errorf("orphans live on a minute after the first %s", c.spared)
				}
				e.Stop(t.Context())
			})
		})
	}
}

// troubledStore has one job and fails to renew it for a while.
type troubledStore struct {
	quietStore
	given   bool
	until   time.Time
	renewed time.Time
}

func (q *troubledStore) Claim(_ context.Context, c store.Claim) (got store.Claimed, err error) {
	if !q.given {
		q.given = true
		got.Jobs = []store.ClaimedJob{{Job: event.Job{ID: newID(), Endpoint: c.Lanes[0].Endpoint, Attempts: 1}}}
	}
	return got, nil
}

func (q *troubledStore) Renew(context.Context, []store.Lease, time.Duration) ([]store.Lease, error) {
	if time.Now().Before(q.until) {
		return nil, store.ErrUnavailable
	}
	if q.renewed.IsZero() {
		q.renewed = time.Now()
	}
	return nil, nil
}

func (q *troubledStore) Finish(context.Context, store.Finish) (bool, error) { return false, nil }

func TestLeaseOutlivesAStoreThatIsAwayForLessThanIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := &troubledStore{quietStore: quietStore{wake: make(chan struct{})}, until: began.Add(27 * time.Second)}
		slow := senderFunc(func(ctx context.Context, _ deliver.Request) deliver.Result {
			<-ctx.Done()
			return deliver.Result{Sent: true, Attempt: event.Attempt{Class: event.ClassInterrupted}}
		})
		e := New(Config{Store: s, NewID: newID, Client: slow})
		e.Start()
		e.Attach(settings(endpoint("a", "http://unused")))
		<-time.After(time.Minute)
		e.Stop(t.Context())
		if after := s.renewed.Sub(began); after < 0 || after >= 30*time.Second {
			t.Errorf("the lease of 30s was renewed after %s", after)
		}
	})
}
