package sqlite

import (
	"time"

	"go.uber.org/zap"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

const (
	// checkpointBytes of log are worth moving into the database. A larger log writes hot pages once instead of many
	// times; a smaller one takes less disk.
	checkpointBytes = 32 << 20
	// logMax is where the writer has to wait for the log's end to be moved. That costs a sync of the database, 30 to 60 ms
	// on the disk where it was measured, so it must stay rarer than one request in a hundred.
	logMax          = 512 << 20
	checkpointEvery = time.Second
)

// checkpointer moves the write-ahead log into the database, beside the writer instead of in its commits.
type checkpointer struct {
	s    *Store
	conn *sqlite.Conn
	// logMax is the constant of that name, less in tests.
	logMax int64
	quit   chan struct{}
	done   chan struct{}
	// failing holds the warning to one for each run of failures.
	failing bool
}

func newCheckpointer(s *Store, most int64) (*checkpointer, error) {
	conn, err := s.connect()
	if err != nil {
		return nil, err
	}
	if most == 0 {
		most = logMax
	}
	return &checkpointer{s: s, conn: conn, logMax: most, quit: make(chan struct{})}, nil
}

func (k *checkpointer) start() {
	k.done = make(chan struct{})
	go func() {
		defer close(k.done)
		tick := time.NewTicker(checkpointEvery)
		defer tick.Stop()
		for {
			select {
			case <-k.quit:
				return
			case <-tick.C:
				k.step()
			}
		}
	}()
}

func (k *checkpointer) close() error {
	if k.done != nil {
		close(k.quit)
		<-k.done
	}
	return k.conn.Close()
}

// step copies most of the log while the writer goes on. Only with nothing left over does SQLite start the log from its
// beginning again. In a quiet moment that happens by itself; under steady writes the writer has to copy the last pages
// between two transactions.
func (k *checkpointer) step() {
	pages, left, err := checkpoint(k.conn, "NOOP")
	if err == nil && left*pageSize < min(checkpointBytes, k.logMax) {
		k.failing = false
		return
	}
	if err == nil {
		_, _, err = checkpoint(k.conn, "PASSIVE")
	}
	if err == nil && pages*pageSize > k.logMax {
		err = k.s.between(func() error {
			_, _, err := checkpoint(k.s.w.conn, "PASSIVE")
			return err
		})
	}
	if err != nil && !k.s.isClosed() && !k.failing {
		k.s.log.Warn("moving the write-ahead log into the database failed; it grows until this works again", zap.Error(err))
	}
	k.failing = err != nil
}

const pageSize = 4096

// checkpoint returns how many pages the log has, and how many of them are not in the database yet.
func checkpoint(c *sqlite.Conn, mode string) (pages, left int64, err error) {
	err = sqlitex.ExecuteTransient(c, "PRAGMA wal_checkpoint("+mode+")", &sqlitex.ExecOptions{
		ResultFunc: func(r *sqlite.Stmt) error {
			pages = r.ColumnInt64(1)
			left = pages - r.ColumnInt64(2)
			return nil
		},
	})
	return pages, left, err
}
