package sqlite

import (
	"errors"
	"os"
	"runtime"
)

// Abandon leaves the store as kill -9 would find it between two transactions: the writer ends without answering what
// waits in its queue, and the files are put back to what they were before Close tidied them up, so that the next Open has
// a log to recover.
func Abandon(s *Store) error {
	files := map[string][]byte{}
	var failed error
	s.gaps <- func() {
		for _, name := range []string{s.path, s.path + "-wal"} {
			b, err := os.ReadFile(name)
			failed = errors.Join(failed, err)
			files[name] = b
		}
		runtime.Goexit()
	}
	<-s.stopped
	err := errors.Join(failed, s.Close())
	for name, b := range files {
		err = errors.Join(err, os.WriteFile(name, b, 0o600))
	}
	return err
}
