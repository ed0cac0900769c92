package sqlite_test

import (
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/store/sqlite"
	"github.com/caddy-anvil/anvil/internal/store/storetest"
)

func TestConformance(t *testing.T) {
	defer goleak.VerifyNone(t)
	storetest.Run(t, harness())
}

func BenchmarkStore(b *testing.B) {
	storetest.Benchmark(b, harness())
}

func harness() storetest.Harness {
	places := map[testing.TB]string{}
	return storetest.Harness{
		Open: func(t testing.TB) store.Store {
			t.Helper()
			if places[t] == "" {
				places[t] = filepath.Join(t.TempDir(), "anvil.db")
			}
			s, err := sqlite.Open(t.Context(), sqlite.Options{Path: places[t]})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		Crash: func(t testing.TB, s store.Store) {
			t.Helper()
			if err := sqlite.Abandon(s.(*sqlite.Store)); err != nil {
				t.Fatal(err)
			}
		},
	}
}
