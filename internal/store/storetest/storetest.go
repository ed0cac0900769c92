// Package storetest is the contract of package store as code. Every store passes the same suite unchanged:
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, storetest.Harness{Open: open, Crash: crash})
//	}
//
// The suite uses nothing but store.Store and moves time by Advance only. A restart may forget how far it was moved.
package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/store"
)

// Harness opens stores for one test.
type Harness struct {
	// Open opens the store at the place that belongs to t. It is empty at first and the same for every call within t, so
	// that closing and opening again is a restart. The suite closes what it opens.
	Open func(t testing.TB) store.Store
	// Crash abandons an open store as kill -9 would: nothing is flushed, leases stay, calls under way fail or end with
	// their context, and nothing is acknowledged that the next Open does not find. Leave it nil where a process cannot do that to itself; those tests skip.
	Crash func(t testing.TB, s store.Store)
}

// slack is the real time that one test may take on a slow machine between two looks at the store's clock.
const slack = time.Minute

// Run runs the whole suite.
func Run(t *testing.T, h Harness) {
	areas := []struct {
		name  string
		specs func(specify)
	}{
		{"accept", acceptSpecs},
		{"accept sent again", resendSpecs},
		{"durability", durabilitySpecs},
		{"restart", restartSpecs},
		{"keys", keySpecs},
		{"keys' end", keyEndSpecs},
		{"backlog", backlogSpecs},
		{"claim", claimSpecs},
		{"claim order and next", claimOrderSpecs},
		{"lease", leaseSpecs},
		{"stale lease", staleSpecs},
		{"finish", finishSpecs},
		{"release", releaseSpecs},
		{"recover", recoverSpecs},
		{"cancel", cancelSpecs},
		{"replay", replaySpecs},
		{"replay refused", replayRefusedSpecs},
		{"list", listSpecs},
		{"cursor", cursorSpecs},
		{"orphans", orphanSpecs},
		{"prune", pruneSpecs},
		{"prune and keys", pruneKeySpecs},
		{"stats", statsSpecs},
		{"wake", wakeSpecs},
		{"concurrency", concurrencySpecs},
		{"races", raceSpecs},
		{"lifecycle", lifecycleSpecs},
	}
	for _, area := range areas {
		t.Run(area.name, func(t *testing.T) {
			area.specs(func(name string, spec func(f *fixture)) {
				t.Run(name, func(t *testing.T) { spec(newFixture(t, h)) })
			})
		})
	}
}

// specify runs one behaviour as a subtest with an empty store of its own.
type specify func(name string, spec func(f *fixture))

// fixture is the store of one test.
type fixture struct {
	testing.TB
	h     Harness
	store store.Store // nil after a crash that nobody has recovered from
	lanes int         // how many lanes ownLane has given out
}

func newFixture(t testing.TB, h Harness) *fixture {
	f := &fixture{TB: t, h: h, store: h.Open(t)}
	t.Cleanup(func() {
		if f.store == nil {
			return
		}
		if err := f.store.Close(); err != nil && !errors.Is(err, store.ErrClosed) {
			t.Errorf("closing the store at the end: %v", err)
		}
	})
	return f
}

// restart closes the store in good order and opens it again.
func (f *fixture) restart() {
	f.Helper()
	f.must(f.store.Close())
	f.store = f.h.Open(f.TB)
}

// crash abandons the store and opens it again.
func (f *fixture) crash() {
	f.Helper()
	f.needCrash()
	f.abandon()
	f.store = f.h.Open(f.TB)
}

// abandon leaves the fixture without a store until it is opened again.
func (f *fixture) abandon() {
	f.Helper()
	s := f.store
	f.store = nil
	f.h.Crash(f.TB, s)
}

func (f *fixture) needCrash() {
	f.Helper()
	if f.h.Crash == nil {
		f.Skip("this store cannot be crashed within the process; the end-to-end tests do it with kill -9")
	}
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}
