package sqlite

import (
	"errors"
	"os"
)

// Abandon leaves the store as kill -9 would find it between two transactions: the files are put back to what they were
// before Close tidied them up, so that the next Open has a log to recover.
func Abandon(s *Store) error {
	files := map[string][]byte{}
	err := s.between(func() error {
		for _, name := range []string{s.path, s.path + "-wal"} {
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			files[name] = b
		}
		// The writer has ended as far as anybody outside can tell: what waits in the queue gets no answer from here on.
		return nil
	})
	err = errors.Join(err, s.Close())
	for name, b := range files {
		err = errors.Join(err, os.WriteFile(name, b, 0o600))
	}
	return err
}
