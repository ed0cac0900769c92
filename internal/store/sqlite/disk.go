package sqlite

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/caddy-anvil/anvil/internal/store"
)

// diskGuard keeps a floor of free space, so that finishing and pruning can go on when new work no longer fits, and notices
// when the file has been taken away. It looks at the file system at most once a second.
type diskGuard struct {
	path string
	file os.FileInfo // as it was opened
	min  atomic.Int64
	next atomic.Int64 // unix nanoseconds of the next look
	free atomic.Int64
	gone atomic.Bool
}

func (g *diskGuard) check(now time.Time) error { return g.above(g.min.Load(), now) }

func (g *diskGuard) above(floor int64, now time.Time) error {
	wait := g.next.Load() - now.UnixNano()
	// A clock that was set back must not stop the looking.
	if (wait <= 0 || wait > int64(time.Second)) && g.next.CompareAndSwap(now.UnixNano()+wait, now.UnixNano()+int64(time.Second)) {
		g.look()
	}
	if g.gone.Load() {
		// The system would let us go on writing to a file that nobody can open again.
		return fmt.Errorf("%w: %s was removed or replaced while it was open; restart Caddy", store.ErrUnavailable, g.path)
	}
	if free := g.free.Load(); free < floor {
		return fmt.Errorf("%w: %s free on the disk of %s, less than the %s it should have", store.ErrFull,
			humanize.IBytes(uint64(free)), g.path, humanize.IBytes(uint64(floor))) //nolint:gosec // both are positive
	}
	return nil
}

func (g *diskGuard) look() {
	free, err := diskFree(filepath.Dir(g.path))
	if err != nil {
		free = math.MaxInt64 // unknown is not full; the write itself will tell
	}
	g.free.Store(free)
	now, err := os.Stat(g.path)
	g.gone.Store(errors.Is(err, os.ErrNotExist) || err == nil && !os.SameFile(now, g.file))
}
