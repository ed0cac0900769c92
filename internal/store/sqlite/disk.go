package sqlite

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/caddy-anvil/anvil/internal/store"
)

// diskGuard keeps a floor of free space, so that finishing and pruning can go on when new work no longer fits. It asks
// the file system at most once a second.
type diskGuard struct {
	dir  string
	min  atomic.Int64
	next atomic.Int64 // unix nanoseconds of the next look
	free atomic.Int64
}

func (g *diskGuard) check(now time.Time) error { return g.above(g.min.Load(), now) }

func (g *diskGuard) above(floor int64, now time.Time) error {
	if floor <= 0 {
		return nil
	}
	if next := g.next.Load(); now.UnixNano() >= next && g.next.CompareAndSwap(next, now.Add(time.Second).UnixNano()) {
		if free, err := diskFree(g.dir); err == nil {
			g.free.Store(free)
		} else {
			g.free.Store(floor) // unknown is not full; the write itself will tell
		}
	}
	if free := g.free.Load(); free < floor {
		return fmt.Errorf("%w: %s free on the disk of %s, less than the %s it should have", store.ErrFull,
			humanize.IBytes(uint64(free)), g.dir, humanize.IBytes(uint64(floor))) //nolint:gosec // both are positive
	}
	return nil
}
