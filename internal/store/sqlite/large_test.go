package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// storeWith opens a store with n jobs beside the first: three are dead, half of the others wait and half are delivered.
// Through the front door that many take too long.
func storeWith(t *testing.T, n int) *Store {
	t.Helper()
	path := filepath.Join(t.TempDir(), "anvil.db")
	s, err := Open(t.Context(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	accept(t, s, webhook(10)) // makes the lane
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{
		`PRAGMA synchronous = OFF`,
		`BEGIN`,
		`CREATE TEMP TABLE numbers AS WITH RECURSIVE r(i) AS (SELECT 10 UNION ALL SELECT i+1 FROM r WHERE i < :n+9) SELECT i FROM r`,
		`INSERT INTO events(seq, id, source, tenant, verified, accepted, jobs, keys_until) SELECT i, randomblob(16), 'shop', 'acme', 1, i, 1, 0 FROM numbers`,
		`INSERT INTO jobs(seq, id, event, lane, state, created, due, ended, attempts)
			SELECT i, randomblob(16), i, (SELECT id FROM lanes), CASE WHEN i < 13 THEN 3 ELSE i%2*2 END, i, i, CASE WHEN i < 13 THEN 1 ELSE i%2 END, 1 FROM numbers`,
		`UPDATE lanes SET n0 = (SELECT count(*) FROM jobs WHERE state = 0), n2 = (SELECT count(*) FROM jobs WHERE state = 2), n3 = 3`,
		`UPDATE sequence SET next = :n+10`,
		`COMMIT`,
	} {
		stmt, _, err := c.PrepareTransient(q)
		if err != nil {
			t.Fatalf("%s: %v", q, err)
		}
		if stmt.BindParamCount() > 0 {
			stmt.SetInt64(":n", int64(n))
		}
		for more := true; more && err == nil; {
			more, err = stmt.Step()
		}
		if err != nil {
			t.Fatalf("%s: %v", q, err)
		}
		_ = stmt.Finalize()
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, path)
}

// Statistics are scraped every few seconds and lists are looked at while webhooks come in: nothing may go through all jobs.
func TestWhatOperatorsAskForTakesNoLongerWithManyJobs(t *testing.T) {
	const few, many = 1000, 20_000
	small, large := storeWith(t, few), storeWith(t, many)
	dead, pending := event.Dead, event.Pending
	jobs := func(f store.JobFilter, want int) func(*Store) {
		return func(s *Store) {
			if got, _, err := s.Jobs(t.Context(), f); err != nil || len(got) != want {
				t.Errorf("listing %+v: %d jobs, %v; want %d", f, len(got), err, want)
			}
		}
	}
	for name, ask := range map[string]func(*Store){
		"statistics": func(s *Store) {
			st, err := s.Stats(t.Context())
			if err != nil || len(st.Lanes) != 1 || st.Lanes[0].Jobs[dead] != 3 || st.Lanes[0].Jobs[pending] < few/2-2 || st.Lanes[0].OldestPending == 0 {
				t.Errorf("statistics %+v, %v", st, err)
			}
		},
		"newest jobs":         jobs(store.JobFilter{Limit: 100}, 100),
		"pending jobs":        jobs(store.JobFilter{Limit: 100, State: &pending}, 100),
		"the few dead jobs":   jobs(store.JobFilter{Limit: 100, State: &dead}, 3),
		"jobs of an endpoint": jobs(store.JobFilter{Limit: 100, Endpoint: "shop/default"}, 100),
		"jobs of nobody":      jobs(store.JobFilter{Limit: 100, Source: "nobody"}, 0),
		"newest events": func(s *Store) {
			if got, _, err := s.Events(t.Context(), store.EventFilter{Limit: 100}); err != nil || len(got) != 100 {
				t.Errorf("%d events, %v", len(got), err)
			}
		},
		"a health check": func(s *Store) {
			if err := s.Check(t.Context()); err != nil {
				t.Error(err)
			}
		},
	} {
		// The fastest of several, in turns, so that a busy machine slows both alike.
		var fastest [2]time.Duration
		for range 7 {
			for i, s := range []*Store{small, large} {
				start := time.Now()
				ask(s)
				if took := time.Since(start); fastest[i] == 0 || took < fastest[i] {
					fastest[i] = took
				}
			}
		}
		t.Logf("%s: %s among %d, %s among %d", name, fastest[0], few, fastest[1], many)
		if fastest[1] > 5*fastest[0]+time.Millisecond {
			t.Errorf("%s: %s among %d jobs, %s among %d", name, fastest[0], few, fastest[1], many)
		}
	}
}
