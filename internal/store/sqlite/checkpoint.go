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
	checkpointEvery = 500 * time.Millisecond
)

// checkpointer moves the write-ahead log into the database, beside the writer instead of in its commits.
type checkpointer struct {
	s    *Store
	conn *sqlite.Conn
	quit chan struct{}
	done chan struct{}
}

func newCheckpointer(s *Store) (*checkpointer, error) {
	conn, err := s.connect()
	if err != nil {
		return nil, err
	}
	return &checkpointer{s: s, conn: conn, quit: make(chan struct{})}, nil
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

// step copies most of the log while the writer goes on, then lets the writer copy the rest between two transactions:
// only with nothing left over does SQLite start the log from its beginning again.
func (k *checkpointer) step() {
	pages, err := checkpoint(k.conn, "NOOP")
	if err == nil && pages*pageSize < checkpointBytes {
		return
	}
	if err == nil {
		_, err = checkpoint(k.conn, "PASSIVE")
	}
	if err == nil {
		err = k.s.between(func() error {
			_, err := checkpoint(k.s.w.conn, "PASSIVE")
			return err
		})
	}
	if err != nil && !k.s.isClosed() {
		k.s.log.Warn("moving the write-ahead log into the database", zap.Error(err))
	}
}

const pageSize = 4096

// checkpoint returns how many pages of the log are not in the database yet.
func checkpoint(c *sqlite.Conn, mode string) (pages int64, err error) {
	err = sqlitex.ExecuteTransient(c, "PRAGMA wal_checkpoint("+mode+")", &sqlitex.ExecOptions{
		ResultFunc: func(r *sqlite.Stmt) error {
			pages = r.ColumnInt64(1) - r.ColumnInt64(2)
			return nil
		},
	})
	return pages, err
}
