package sqlite

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"zombiezen.com/go/sqlite"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// What PRAGMA synchronous says of a connection. With off a commit may even be lost with the file, with full it returns
// after fsync.
const (
	synchronousNormal = 1
	synchronousFull   = 2
)

// synchronous is how the newest transaction was committed: nothing changes it until the next one begins.
func synchronous(t *testing.T, s *Store) int64 {
	t.Helper()
	level := int64(-1)
	err := s.between(func() error {
		return query(s.w.conn, "PRAGMA synchronous", func(r *sqlite.Stmt) error { level = r.ColumnInt64(0); return nil })
	})
	if err != nil {
		t.Fatal(err)
	}
	return level
}

// A process that is killed leaves what it has written to the system, so that no crash test can tell whether a commit
// waited for the disk.
func TestWhatIsAcknowledgedHasWaitedForTheDisk(t *testing.T) {
	jobOf := func(t *testing.T, s *Store) event.ID {
		t.Helper()
		a := webhook(1)
		accept(t, s, a)
		return a.Jobs[0].ID
	}
	// Each makes what its change is about, and returns the change.
	for name, prepare := range map[string]func(t *testing.T, s *Store) func() error{
		"accept": func(t *testing.T, s *Store) func() error {
			t.Helper()
			return func() error { _, err := s.Accept(t.Context(), webhook(1)); return err }
		},
		"duplicate": func(t *testing.T, s *Store) func() error {
			t.Helper()
			first, again := webhook(1), webhook(1)
			again.Keys = first.Keys
			accept(t, s, first)
			return func() error {
				answer, err := s.Accept(t.Context(), again)
				if err == nil && !answer.Duplicate {
					err = errors.New("not taken for a duplicate")
				}
				return err
			}
		},
		"replay": func(t *testing.T, s *Store) func() error {
			t.Helper()
			id := jobOf(t, s)
			if _, err := s.Orphans(t.Context(), -time.Hour, 1); err != nil { // nobody has configured its endpoint
				t.Fatal(err)
			}
			return func() error {
				answer, err := s.Replay(t.Context(), id, uuid.Must(uuid.NewV7()), false)
				if err == nil && !answer.Replayed {
					err = errors.New("not replayed")
				}
				return err
			}
		},
		"cancel": func(t *testing.T, s *Store) func() error {
			t.Helper()
			id := jobOf(t, s)
			return func() error {
				cancelled, err := s.Cancel(t.Context(), id)
				if err == nil && !cancelled {
					err = errors.New("not cancelled")
				}
				return err
			}
		},
		"check": func(t *testing.T, s *Store) func() error {
			t.Helper()
			return func() error { return s.Check(t.Context()) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, filepath.Join(t.TempDir(), "anvil.db"))
			change := prepare(t, s)
			relax(t, s)
			if err := change(); err != nil {
				t.Fatal(err)
			}
			if level := synchronous(t, s); level < synchronousFull {
				t.Errorf("committed with synchronous at %d, want %d", level, synchronousFull)
			}
		})
	}
}

// relax commits something that may be done without waiting for the disk.
func relax(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Configured(t.Context(), []store.LaneID{{Queue: "webhooks", Endpoint: "shop/default"}}); err != nil {
		t.Fatal(err)
	}
}

func TestTheFirstWebhookAfterTheOpeningHasWaitedForTheDisk(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "anvil.db"))
	accept(t, s, webhook(1))
	if level := synchronous(t, s); level < synchronousFull {
		t.Errorf("committed with synchronous at %d, want %d", level, synchronousFull)
	}
}

// Also without fsync a commit has to keep its order in the log, or a power cut takes more than the last of them.
func TestWhatNobodyWaitsForIsWrittenInOrder(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "anvil.db"))
	relax(t, s)
	if level := synchronous(t, s); level < synchronousNormal {
		t.Errorf("committed with synchronous at %d, want at least %d", level, synchronousNormal)
	}
}

func TestAWebhookThatSharesItsTransactionHasWaitedForTheDisk(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "anvil.db"))
	relax(t, s)
	nothing := func(*tx) error { return nil }
	err := s.between(func() error {
		_, err := s.w.transact([]*op{{run: nothing}, {run: nothing, durable: true}, {run: nothing}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if level := synchronous(t, s); level < synchronousFull {
		t.Errorf("committed with synchronous at %d, want %d", level, synchronousFull)
	}
}
