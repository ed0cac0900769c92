// Package admin answers what an operator asks of a store: list, show, replay, cancel and count. It speaks in values that
// marshal to the JSON of the admin API, so that every front (API, command line, dashboard) says the same.
package admin

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

// Service reads and changes one store. It is safe for concurrent use and holds nothing of its own. Every error that its
// methods return is an *Error.
type Service struct {
	Store store.Store
	// NewID makes the id of a replay's copy.
	NewID func() event.ID
	// Unrouted counts the pending jobs whose endpoint nobody has configured. Only whoever knows the configuration can tell;
	// nil counts none.
	Unrouted func(lanes []store.LaneStats) int64
}

// Time is a point in time that marshals as RFC 3339 in UTC with six decimals always, so that answers sorted as text are
// sorted by time.
type Time struct{ time.Time }

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	return []byte(t.UTC().Format(`"2006-01-02T15:04:05.000000Z"`)), nil
}

// parseID takes the one form of an id that the answers use; the parser of the library also knows braces and URNs.
func parseID(id string) (event.ID, error) {
	const form = "01890000-0000-7000-8000-000000000000"
	parsed, err := uuid.Parse(id)
	if err != nil || len(id) != len(form) {
		return event.ID{}, invalid("%q is not an id; ids look like %s", cut(id), form)
	}
	return parsed, nil
}

// cut keeps a message short whatever was asked.
func cut(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return fmt.Sprintf("%s… (%d bytes)", s[:most], len(s))
}
