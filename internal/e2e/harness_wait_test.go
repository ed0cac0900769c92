package e2e

import (
	"testing"
	"time"
)

// patience is how long a test waits for what has to happen. Where it happens, that costs nothing, and a busy machine may
// stand still for seconds.
const patience = 30 * time.Second

// waitFor polls cond until it holds. What is awaited lives in another process, so there is no channel to wait on.
func waitFor(t testing.TB, within time.Duration, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(within)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-deadline:
			if cond() {
				return // it was this test that had no processor to look again in time
			}
			t.Fatalf("after %s: %s did not happen", within, what)
		case <-tick.C:
		}
	}
}

// holds fails the test if cond stops holding within the time given. It is for "and nothing more comes".
func holds(t testing.TB, during time.Duration, what string, cond func() bool) {
	t.Helper()
	end := time.After(during)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if !cond() {
			t.Fatalf("%s held no longer", what)
		}
		select {
		case <-end:
			return
		case <-tick.C:
		}
	}
}

// lateness is what a loaded machine may add to a time limit before a test calls it broken.
const lateness = 2 * time.Second

// inTime fails the test when something takes longer than the limit five times in a row. A machine that stands still for
// seconds makes it late once.
func inTime(t testing.TB, what string, limit time.Duration, do func()) {
	t.Helper()
	tookInTime(t, what, limit, func() time.Duration {
		start := time.Now()
		do()
		return time.Since(start)
	})
}

// tookInTime is inTime for what measures itself.
func tookInTime(t testing.TB, what string, limit time.Duration, measure func() time.Duration) {
	t.Helper()
	var all []time.Duration
	for range 5 {
		took := measure()
		if took <= limit {
			return
		}
		all = append(all, took)
	}
	t.Errorf("%s took %s, at most %s was allowed", what, all, limit)
}
