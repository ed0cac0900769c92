package sqlite

import (
	"context"
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/caddy-anvil/anvil/internal/store"
)

// kindOf wraps an error of the library in one of the contract's kinds.
func kindOf(err error) error {
	switch {
	case err == nil:
		return nil
	case isKind(err):
		return err
	case sqlite.ErrCode(err).ToPrimary() == sqlite.ResultFull:
		return fmt.Errorf("%w: no space left for the database: %w", store.ErrFull, err)
	default:
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
}

func isKind(err error) bool {
	for _, kind := range []error{
		store.ErrUnavailable, store.ErrFull, store.ErrBacklog, store.ErrClosed, store.ErrNotFound,
		store.ErrPruned, store.ErrCursor, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// openError adds what to do about it.
func openError(path string, err error) error {
	hint := "check that the directory exists and is writable"
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultNotADB, sqlite.ResultCorrupt:
		hint = "the file is damaged or is no anvil store; move it away or restore a backup"
	case sqlite.ResultFull, sqlite.ResultIOErr:
		hint = "the disk may be full or failing; free some space"
	case sqlite.ResultReadOnly, sqlite.ResultPerm:
		hint = "the file is not writable for this user"
	case sqlite.ResultBusy, sqlite.ResultLocked:
		hint = "another program has the file open; close it"
	case sqlite.ResultError:
		return fmt.Errorf("opening store %s: %w", path, err)
	}
	return fmt.Errorf("opening store %s: %w (%s)", path, err, hint)
}
