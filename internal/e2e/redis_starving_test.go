package e2e

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/redistest"
	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/store/redis"
)

// seedRetries fills a Redis with jobs of an endpoint that have failed once and are due again, as an instance that has gone
// would have left them. Through the front door that many take minutes.
func seedRetries(t *testing.T, r *redistest.Server, source string, jobs int) {
	t.Helper()
	s, err := redis.Open(t.Context(), redis.Options{Addr: r.Addr(), Prefix: "anvil", AcceptTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	lane := store.LaneID{Queue: "webhooks", Endpoint: source + "/default"}
	payload := (&event.Payload{Method: "POST", Scheme: "http", Host: "hooks.test", URI: "/", Body: hook(0)}).Encode()
	do := func(n int, do func(i int) error) {
		const senders = 64
		var wg sync.WaitGroup
		for first := range senders {
			wg.Go(func() {
				for i := first; i < n; i += senders {
					if err := do(i); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			t.FailNow()
		}
	}
	const each = 100 // jobs of one event
	do(jobs/each, func(int) error {
		a := store.Accept{Event: event.Event{ID: newUUID(), Source: source, Verified: true, Payload: payload}}
		for range each {
			a.Jobs = append(a.Jobs, store.NewJob{ID: newUUID(), Queue: lane.Queue, Endpoint: lane.Endpoint})
		}
		_, err := s.Accept(t.Context(), a)
		return err
	})
	var outcomes []store.Finish // of all before the first is written, or they would be claimed again
	for len(outcomes) < jobs {
		c := store.Claim{Token: newUUID(), Lanes: []store.Lane{{LaneID: lane, Max: 1000}}, Lease: time.Hour}
		got, err := s.Claim(t.Context(), c)
		if err != nil || len(got.Jobs) == 0 {
			t.Fatalf("claiming: %d jobs, %v", len(got.Jobs), err)
		}
		for i := range got.Jobs {
			outcomes = append(outcomes, store.Finish{
				Lease: store.Lease{Job: got.Jobs[i].Job.ID, Token: c.Token, Attempt: 1, Lane: lane}, State: event.Pending,
				Row: event.Attempt{Number: 1, StartedAt: time.Now(), Class: event.ClassConnect, Error: "connection refused"},
			})
		}
	}
	do(jobs, func(i int) error {
		lost, err := s.Finish(t.Context(), outcomes[i])
		if lost {
			err = errors.New("the lease is lost")
		}
		return err
	})
}

func newUUID() event.ID { return uuid.Must(uuid.NewV7()) }

func TestTwentyThousandDueRetriesDoNotHoldUpFreshWork(t *testing.T) {
	const jobs, fresh = 20_000, 20
	r := redistest.Start(t)
	seedRetries(t, r, "dead", jobs)
	down := newUpstream(t, func(int, hit) answer { return answer{reset: true} })
	good := newUpstream(t, nil)
	c := startInstances(t, 1, redisStore(r.Addr(), patient), fmt.Sprintf(`	anvil /dead dead {
		verify hmac %[1]q
		deliver %[2]s {
			retry exponential {
				base 100ms
				cap 1s
				attempts 100
			}
		}
	}
	anvil /good good {
		verify hmac %[1]q
		deliver %[3]s
	}`, secret, down.addr(), good.addr()))[0]
	down.wait(100, time.Minute) // the retries are under way
	start, before := time.Now(), down.count()
	for i := range fresh {
		accepted(t, c.site+"/good", hook(i), "Idempotency-Key", strconv.Itoa(i))
	}
	good.wait(fresh, time.Minute)
	retries := down.count() - before
	t.Logf("%d fresh events arrived in %s, beside %d retries", fresh, time.Since(start), retries)
	if retries > jobs/2 {
		t.Errorf("%d retries of %d came before %d fresh events", retries, jobs, fresh)
	}
	// An outcome is written a moment after its request was seen.
	waitFor(t, time.Minute, "the fresh ones delivered and all retries still there", func() bool {
		states, _ := c.stats()
		return states["delivered"] == fresh && states["pending"]+states["running"] == jobs
	})
}
