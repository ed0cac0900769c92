package store

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/caddy-anvil/anvil/internal/event"
)

// KeyHash names a dedupe key within a store: in the space of its source, tenant and proof. Lengths are part of the input,
// so that no two spaces can be spelled alike.
func KeyHash(e *event.Event, key string) [sha256.Size]byte {
	b := make([]byte, 0, 160)
	b = binary.AppendUvarint(b, uint64(len(e.Source)))
	b = append(b, e.Source...)
	b = binary.AppendUvarint(b, uint64(len(e.Tenant)))
	b = append(b, e.Tenant...)
	if e.Verified {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	return sha256.Sum256(append(b, key...))
}

// cursorMark tells a cursor from words that are numbers to base 36: a client that sends "null" back at the end of a walk
// would begin it anew, for ever.
const cursorMark = "_"

// FormatCursor makes the cursor of a page that starts below n, where a store's lists run down by a positive number.
func FormatCursor(n int64) string { return cursorMark + strconv.FormatInt(n, 36) }

// ParseCursor is the inverse of FormatCursor. The empty cursor starts at the top, and anything else is ErrCursor.
func ParseCursor(cursor string) (int64, error) {
	if cursor == "" {
		return 1 << 62, nil
	}
	digits, ours := strings.CutPrefix(cursor, cursorMark)
	n, err := strconv.ParseInt(digits, 36, 64)
	if !ours || err != nil || n <= 0 {
		return 0, ErrCursor
	}
	return n, nil
}

// SourceOf is the source in an endpoint's identity, `<source>/<name>`.
func SourceOf(endpoint string) string {
	source, _, _ := strings.Cut(endpoint, "/")
	return source
}
