package e2e

import (
	"fmt"
	"os"
	"testing"
)

// lacks skips the test on a machine that cannot run it. Where the variable named need is set, a skipped test would be a
// silent gap, so it fails instead.
func lacks(t testing.TB, need, format string, args ...any) {
	t.Helper()
	text := fmt.Sprintf(format, args...)
	if os.Getenv(need) != "" {
		t.Fatalf("%s is set and this machine lacks something: %s", need, text)
	}
	t.Skip(text)
}
