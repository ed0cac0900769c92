package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/caddy-anvil/anvil/internal/store"
)

// fault sorts an error into the kinds of the store. A caller's own context error stays as it is.
func (s *Store) fault(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrUnavailable), errors.Is(err, context.Canceled):
		return err
	}
	if s.isClosed() {
		return store.ErrClosed
	}
	text := err.Error()
	switch {
	case strings.HasPrefix(text, "LAYOUT "):
		return fmt.Errorf("%w: %w", store.ErrUnavailable, newerLayout(strings.TrimPrefix(text, "LAYOUT ")))
	case strings.Contains(text, "OOM command not allowed"):
		return fmt.Errorf("%w: %s: Redis has reached its maxmemory", store.ErrFull, doing)
	}
	if len(text) > longestError { // a server that is none may answer anything
		return fmt.Errorf("%w: %s: %s…", store.ErrUnavailable, doing, strings.ToValidUTF8(text[:longestError], ""))
	}
	return fmt.Errorf("%w: %s: %w", store.ErrUnavailable, doing, err)
}

const longestError = 512

func newerLayout(version string) error {
	return fmt.Errorf("Redis holds layout version %s under this prefix, this program knows version %s; run the program of that "+ //nolint:staticcheck // a name
		"version, or use another prefix", version, layoutVersion)
}

// errReply is an answer that our own scripts do not give: something else answers on this connection.
var errReply = fmt.Errorf("%w: Redis gave an answer that makes no sense", store.ErrUnavailable)
