package anvil

import (
	"context"
	"fmt"
	"testing"

	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/worker"
)

// uncounting is a store that writes and cannot count.
type uncounting struct {
	store.Store
	err error
}

func (uncounting) Check(context.Context) error { return nil }

func (u uncounting) Stats(context.Context) (store.Stats, error) { return store.Stats{}, u.err }

func TestAStoreThatCannotBeReadIsNotReady(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		fit  bool
	}{
		{"broken", fmt.Errorf("%w: disk I/O error", store.ErrUnavailable), false},
		{"too slow to count", fmt.Errorf("counting: %w", context.DeadlineExceeded), true},
		{"counted", nil, true},
	} {
		s := uncounting{err: c.err}
		e := engine{store: s, worker: worker.New(worker.Config{Store: s})}
		if got := e.check().err; (got == nil) != c.fit {
			t.Errorf("%s: the check of the store gave %v", c.name, got)
		}
	}
}
