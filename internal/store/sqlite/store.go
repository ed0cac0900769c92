// Package sqlite is the embedded store: one file, one process, nothing to run beside Caddy.
//
// All changes go through one writer goroutine that puts whatever has queued up meanwhile into one transaction, so that
// many requests share one fsync while a lone one waits for nobody. Reads have connections of their own. A lock file
// beside the database keeps a second process out, which is why leases live in memory: opening the file ends them all.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"
	"go.uber.org/zap"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// Options configure a store.
type Options struct {
	// Path is the database file; its directory is made with mode 0700 when it is missing.
	Path string
	// MinFree is the free disk space in bytes below which Accept answers store.ErrFull; 0 means no floor. It can be
	// changed later with SetMinFree.
	MinFree int64
	// Log may be nil.
	Log *zap.Logger
	// Now is the wall clock; nil means time.Now.
	Now func() time.Time

	logMax int64 // for tests: see checkpointer
}

const (
	// lockWait bounds how long Open waits for a lock that is just being given up, as in a quick stop and start.
	lockWait = 3 * time.Second
	readers  = 2
	// A balanced page makes SQLite walk its whole cache at the commit, so a large cache costs more than it saves: 64 MiB
	// measured 0.7 ms a commit, while a page that is not in 8 MiB is a copy from the system's cache.
	writerCache = "PRAGMA cache_size = -8192"
)

// Store is the embedded store; see store.Store for the contract of its methods.
type Store struct {
	path   string
	log    *zap.Logger
	now    func() time.Time
	opened time.Time
	offset atomic.Int64 // of the clock, moved by Advance
	lock   *flock.Flock

	ops     chan *op
	gaps    chan func()   // see between
	stop    chan struct{} // closed by Close
	stopped chan struct{} // closed when the writer has ended
	closing sync.Once
	closed  error
	wake    chan struct{}

	reads *sqlitex.Pool
	ckpt  *checkpointer
	disk  diskGuard

	w *writer

	// mu guards what the writer changes after a commit and others read.
	mu     sync.Mutex
	lanes  []*lane // by id-1
	byName map[store.LaneID]*lane
	leases map[event.ID]*lease
	// left are the lives that Open found and ended; the first Recover reports them.
	left store.Recovered
}

// lane is an endpoint in a queue, with the counts of its jobs. In counts, Pending holds pending and running jobs.
type lane struct {
	store.LaneID
	id     int64
	noted  int64
	counts [7]int64
}

// lease is a life under way.
type lease struct {
	job     event.ID
	seq     int64
	lane    *lane
	token   event.ID
	attempt int
	since   int64 // by the clock
	until   int64 // by elapsed
}

// Open opens or makes the store and ends every lease that is in it.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	path, err := Resolve(o.Path)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("opening store %s: %w (make the directory writable for this user, or choose another path)", path, err)
	}
	s := &Store{
		path: path, log: o.Log, now: o.Now, opened: o.Now(), lock: flock.New(path+".lock", flock.SetPermissions(0o600)),
		ops: make(chan *op, 1024), gaps: make(chan func()), stop: make(chan struct{}), stopped: make(chan struct{}), wake: make(chan struct{}, 1),
		byName: map[store.LaneID]*lane{}, leases: map[event.ID]*lease{},
	}
	s.disk.path = path
	s.disk.min.Store(o.MinFree)
	s.disk.free.Store(math.MaxInt64) // until the first look
	if err := s.takeLock(ctx); err != nil {
		return nil, err
	}
	if err := s.open(ctx, o.logMax); err != nil {
		err = openError(path, err)
		return nil, errors.Join(err, s.release())
	}
	go s.w.run()
	s.ckpt.start()
	return s, nil
}

// Resolve makes a path absolute and follows links, so that two spellings of one file are one store. The file and its
// directories need not exist yet, and their coming into being does not change the result: a lock or a pool that knows the
// store by another name than before would let it be opened twice.
func Resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("resolving store path %s: %w", path, err)
	}
	const mostLinks = 40 // as in Linux
	for range mostLinks {
		real, err := filepath.EvalSymlinks(abs)
		if err == nil {
			return real, nil
		}
		// What is missing is the end of the path, or the target of a link.
		if to, err := os.Readlink(abs); err == nil {
			if !filepath.IsAbs(to) {
				to = filepath.Join(filepath.Dir(abs), to)
			}
			abs = to
			continue
		}
		dir, name := filepath.Split(filepath.Clean(abs))
		if dir == "" || filepath.Clean(dir) == abs {
			return abs, nil
		}
		parent, err := Resolve(dir)
		if err != nil {
			return "", err
		}
		return filepath.Join(parent, name), nil
	}
	return "", fmt.Errorf("resolving store path %s: too many links", path)
}

func (s *Store) takeLock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	ok, err := s.lock.TryLockContext(ctx, 20*time.Millisecond)
	switch {
	case ok:
		return nil
	case err == nil, errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("opening store %s: file is locked by another process; is a second Caddy running?", s.path)
	default:
		return fmt.Errorf("opening store %s: taking the lock file: %w (make the directory writable for this user, or choose another path)", s.path, err)
	}
}

func (s *Store) open(ctx context.Context, logMax int64) error {
	// SQLite would make the file readable for all; its -wal and -shm files copy this mode.
	f, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	s.disk.file, err = f.Stat()
	err = errors.Join(err, f.Chmod(0o600), f.Close())
	if err != nil {
		return err
	}
	conn, err := s.connect()
	if err != nil {
		return err
	}
	s.w = &writer{s: s, conn: conn, sweepAt: -1}
	for _, q := range []string{
		"PRAGMA journal_mode = WAL",
		"PRAGMA synchronous = FULL",
		// The checkpointer decides when; a commit never pays for one.
		"PRAGMA wal_autocheckpoint = 0",
		"PRAGMA journal_size_limit = 536870912",
		writerCache,
	} {
		if err := sqlitex.ExecuteTransient(conn, q, nil); err != nil {
			return err
		}
	}
	if err := migrate(ctx, conn); err != nil {
		return err
	}
	if err := s.load(); err != nil {
		return err
	}
	s.ckpt, err = newCheckpointer(s, logMax)
	if err != nil {
		return err
	}
	s.reads, err = sqlitex.NewPool(s.uri(), sqlitex.PoolOptions{Flags: sqlite.OpenReadWrite | sqlite.OpenURI, PoolSize: readers})
	return err
}

func (s *Store) connect() (*sqlite.Conn, error) {
	return sqlite.OpenConn(s.uri(), sqlite.OpenReadWrite|sqlite.OpenURI)
}

// load reads what lives in memory and ends the lives that the last process left.
func (s *Store) load() error {
	conn := s.w.conn
	err := query(conn, "SELECT id, queue, endpoint, noted, n0, n2, n3, n4, n5, n6 FROM lanes ORDER BY id", func(r *sqlite.Stmt) error {
		l := &lane{id: r.ColumnInt64(0), LaneID: store.LaneID{Queue: r.ColumnText(1), Endpoint: r.ColumnText(2)}, noted: r.ColumnInt64(3)}
		for i, st := range countedStates {
			l.counts[st] = r.ColumnInt64(4 + i)
		}
		s.lanes = append(s.lanes, l)
		s.byName[l.LaneID] = l
		return nil
	})
	if err != nil {
		return err
	}
	for _, q := range []string{
		"SELECT next, 0 FROM sequence",
		"SELECT coalesce(max(seq + max(jobs, 1)), 1), coalesce(max(accepted), 0) FROM (SELECT seq, jobs, accepted FROM events ORDER BY seq DESC LIMIT 1)",
		"SELECT coalesce(max(seq + 1), 1), coalesce(max(created), 0) FROM (SELECT seq, created FROM jobs ORDER BY seq DESC LIMIT 1)",
	} {
		err := query(conn, q, func(r *sqlite.Stmt) error {
			s.w.nextSeq = max(s.w.nextSeq, r.ColumnInt64(0))
			s.w.lastTime = max(s.w.lastTime, r.ColumnInt64(1))
			return nil
		})
		if err != nil {
			return err
		}
	}
	return s.w.endLeftLives()
}

func (s *Store) uri() string { return "file:" + uriEscape(s.path) }

// Describe implements store.Store.
func (s *Store) Describe() string { return "sqlite " + s.path }

// Wake implements store.Store.
func (s *Store) Wake() <-chan struct{} { return s.wake }

func (s *Store) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Advance implements store.Store.
func (s *Store) Advance(d time.Duration) {
	s.offset.Add(int64(d))
	s.signal()
}

// elapsed is the time for leases, in microseconds since Open: it does not step with the wall clock, nor go on while the
// machine sleeps, and leases do not outlive the process.
func (s *Store) elapsed() int64 {
	return (s.now().Sub(s.opened) + time.Duration(s.offset.Load())).Microseconds()
}

func (s *Store) clock() int64 { return s.now().Add(time.Duration(s.offset.Load())).UnixMicro() }

// SetMinFree changes Options.MinFree.
func (s *Store) SetMinFree(n int64) { s.disk.min.Store(n) }

// leastFree is what a store needs to be called working even without a floor: Check's own write is so small that it may
// fit where no webhook does.
const leastFree = 1 << 20

// Check implements store.Store: it writes, because a read would not notice a full or failing disk. SQLite leaves out a
// write that changes nothing, so the value is a new one each time.
func (s *Store) Check(ctx context.Context) error {
	if err := s.disk.above(max(s.disk.min.Load(), leastFree), s.now()); err != nil {
		return err
	}
	return s.do(ctx, true, func(t *tx) error {
		return t.exec("UPDATE sequence SET checks = checks + 1")
	})
}

// Close implements store.Store.
func (s *Store) Close() error {
	s.closing.Do(func() {
		close(s.stop)
		<-s.stopped
		s.closed = s.release()
	})
	return s.closed
}

// release gives back whatever open has taken so far.
func (s *Store) release() error {
	var errs []error
	if s.ckpt != nil {
		errs = append(errs, s.ckpt.close())
	}
	if s.reads != nil {
		errs = append(errs, s.reads.Close())
	}
	if s.w != nil {
		errs = append(errs, s.w.conn.Close())
	}
	return errors.Join(append(errs, s.lock.Close())...)
}

func (s *Store) isClosed() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// read runs f on a connection for reading, all of it on the same state of the database: between two statements retention
// could otherwise take what the first one has found.
func (s *Store) read(ctx context.Context, f func(c *sqlite.Conn) error) error {
	if s.isClosed() {
		return store.ErrClosed
	}
	c, err := s.reads.Take(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if s.isClosed() {
			return store.ErrClosed
		}
		return kindOf(err)
	}
	defer s.reads.Put(c)
	if err = exec(c, "BEGIN"); err == nil {
		err = f(c)
		// The caller may have left, and that interrupts every statement. A transaction that stayed open would refuse the next
		// reader, and keep the log from being emptied.
		c.SetInterrupt(nil)
		err = errors.Join(err, exec(c, "ROLLBACK"))
	}
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return kindOf(err)
	}
	return nil
}

var _ store.Store = (*Store)(nil)

func micros(t int64) time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.UnixMicro(t).UTC()
}
