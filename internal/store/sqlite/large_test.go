package sqlite

import (
	"path/filepath"
	"slices"
	"testing"

	"zombiezen.com/go/sqlite"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// minedStore opens a store with n jobs beside the first: three are dead, half of the others wait and half are delivered.
// Through the front door that many take too long. See mine for what is done to it.
func minedStore(t *testing.T, n int) *Store {
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
	s = open(t, path) // looks through what waits, once
	mine(t, path)
	return s
}

// mine overwrites pages in the midst of every large table and index. A read that steps on one fails, and a walk through all
// of a table cannot avoid them: that shows without a clock who goes through everything.
func mine(t *testing.T, path string) {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	leaves := map[string][]int64{}
	err = query(c, "SELECT name, pageno FROM dbstat WHERE pagetype = 'leaf' ORDER BY name, path", func(r *sqlite.Stmt) error {
		leaves[r.ColumnText(0)] = append(leaves[r.ColumnText(0)], r.ColumnInt64(1))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, pages := range leaves {
		n := len(pages)
		if n < 20 {
			continue // a table that does not grow with the jobs
		}
		// The ends stay whole, and the middle, where the newest of one state lies before the oldest of another.
		for _, page := range slices.Concat(pages[n/10:n*4/10], pages[n*6/10:n*9/10]) {
			if err := exec(c, "UPDATE sqlite_dbpage SET data = zeroblob(length(data)) WHERE pgno = ?", page); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Statistics are scraped every few seconds and lists are looked at while webhooks come in.
func TestWhatOperatorsAskForGoesThroughNoWholeTable(t *testing.T) {
	const n = 20_000
	s := minedStore(t, n)
	for _, table := range []string{"jobs", "events"} {
		err := s.read(t.Context(), func(c *sqlite.Conn) error { return exec(c, "SELECT count(*) FROM "+table) })
		if err == nil {
			t.Fatalf("nobody would notice a walk through all %s", table)
		}
	}
	dead, pending := event.Dead, event.Pending
	jobs := func(f store.JobFilter, want int) func(*testing.T) {
		return func(t *testing.T) {
			t.Helper()
			if got, _, err := s.Jobs(t.Context(), f); err != nil || len(got) != want {
				t.Errorf("listing %+v: %d jobs, %v; want %d", f, len(got), err, want)
			}
		}
	}
	for name, ask := range map[string]func(*testing.T){
		"statistics": func(t *testing.T) {
			st, err := s.Stats(t.Context())
			if err != nil || len(st.Lanes) != 1 || st.Lanes[0].Jobs[dead] != 3 || st.Lanes[0].Jobs[pending] < n/2-2 || st.Lanes[0].OldestPending == 0 {
				t.Errorf("statistics %+v, %v", st, err)
			}
		},
		"newest jobs":         jobs(store.JobFilter{Limit: 100}, 100),
		"pending jobs":        jobs(store.JobFilter{Limit: 100, State: &pending}, 100),
		"the few dead jobs":   jobs(store.JobFilter{Limit: 100, State: &dead}, 3),
		"jobs of an endpoint": jobs(store.JobFilter{Limit: 100, Endpoint: "shop/default"}, 100),
		"jobs of nobody":      jobs(store.JobFilter{Limit: 100, Source: "nobody"}, 0),
		"newest events": func(t *testing.T) {
			if got, _, err := s.Events(t.Context(), store.EventFilter{Limit: 100}); err != nil || len(got) != 100 {
				t.Errorf("%d events, %v", len(got), err)
			}
		},
		"a health check": func(t *testing.T) {
			if err := s.Check(t.Context()); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, ask)
	}
}
