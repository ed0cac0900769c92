package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"zombiezen.com/go/sqlite"

	"github.com/caddy-anvil/anvil/internal/store"
)

func TestACallerWhoLeavesInTheMiddleOfAReadLeavesTheConnectionFit(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "anvil.db"))
	accept(t, s, webhook(10))
	for range 3 * readers {
		ctx, leave := context.WithCancel(t.Context())
		err := s.read(ctx, func(c *sqlite.Conn) error {
			if err := exec(c, "SELECT count(*) FROM jobs"); err != nil {
				t.Errorf("reading before the caller left: %v", err)
			}
			leave()
			<-ctx.Done()
			return exec(c, "SELECT count(*) FROM events")
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a read whose caller left gave %v, want the caller's own error", err)
		}
	}
	for range 3 * readers {
		if jobs, _, err := s.Jobs(t.Context(), store.JobFilter{Limit: 10}); err != nil || len(jobs) != 1 {
			t.Fatalf("a read after callers left: %d jobs, %v; want the one there is", len(jobs), err)
		}
	}
}
