package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"zombiezen.com/go/sqlite"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

func open(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func webhook(size int) store.Accept {
	return store.Accept{
		Event: event.Event{ID: uuid.Must(uuid.NewV7()), Source: "shop", Verified: true, Payload: make([]byte, size)},
		Keys:  []store.Key{{Value: uuid.NewString(), TTL: time.Hour}},
		Jobs:  []store.NewJob{{ID: uuid.Must(uuid.NewV7()), Queue: "webhooks", Endpoint: "shop/default"}},
	}
}

func accept(t *testing.T, s *Store, a store.Accept) store.Accepted {
	t.Helper()
	answer, err := s.Accept(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestFilesAreForTheirOwnerOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "anew")
	s := open(t, filepath.Join(dir, "anvil.db"))
	accept(t, s, webhook(10))
	for name, want := range map[string]os.FileMode{"": 0o700, "anvil.db": 0o600, "anvil.db-wal": 0o600, "anvil.db-shm": 0o600, "anvil.db.lock": 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != want {
			t.Errorf("%q has mode %o, want %o", name, mode, want)
		}
	}
}

func TestAnOldFileThatOthersCanReadIsClosedToThem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "anvil.db")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	open(t, path)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestASecondOpenIsToldThatTheFileIsInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "anvil.db")
	open(t, path)
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, link} {
		_, err := Open(t.Context(), Options{Path: p})
		if err == nil || !strings.Contains(err.Error(), "locked by another process; is a second Caddy running?") || !strings.Contains(err.Error(), path) {
			t.Errorf("opening %s: %v", p, err)
		}
	}
}

func TestWhatIsNoStoreIsRefusedAndLeftAlone(t *testing.T) {
	for name, content := range map[string]string{
		"text":            strings.Repeat("not a database, but somebody's file. ", 200),
		"damaged header":  "SQLite format 3\x00" + strings.Repeat("\xff", 4096),
		"another program": "",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "anvil.db")
			if name == "another program" {
				s := open(t, path)
				if err := s.do(t.Context(), true, func(tx *tx) error { return tx.exec("PRAGMA application_id = 7") }); err != nil {
					t.Fatal(err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			} else if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Open(t.Context(), Options{Path: path}); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("opened: %v", err)
			} else {
				t.Log(err)
			}
			if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
				t.Errorf("the file was changed (%v)", err)
			}
			// The lock was given back.
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			open(t, path)
		})
	}
}

func TestANewerLayoutIsRefusedWithBothVersions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "anvil.db")
	s := open(t, path)
	if err := s.do(t.Context(), true, func(tx *tx) error { return tx.exec("PRAGMA user_version = 99") }); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), Options{Path: path})
	if err == nil || !strings.Contains(err.Error(), "layout version 99, this program knows up to 1") {
		t.Error(err)
	}
}

func TestADirectoryThatCannotBeWrittenIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), Options{Path: filepath.Join(file, "below", "anvil.db")})
	if err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "choose another path") {
		t.Error(err)
	}
}

func TestAKeyWhoseEventIsLostCountsAsFree(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "anvil.db"))
	first, again := webhook(1), webhook(1)
	again.Keys = first.Keys
	accept(t, s, first)
	if !accept(t, s, again).Duplicate {
		t.Fatal("no duplicate while the event is there")
	}
	err := s.do(t.Context(), true, func(tx *tx) error {
		return errors.Join(tx.exec("DELETE FROM events"), tx.exec("DELETE FROM jobs"), tx.exec("DELETE FROM payloads"))
	})
	if err != nil {
		t.Fatal(err)
	}
	if answer := accept(t, s, again); answer.Duplicate || answer.EventID != again.Event.ID {
		t.Errorf("answer %+v", answer)
	}
}

func TestBelowMinFreeNewWorkIsRefusedAndTheRestGoesOn(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "anvil.db"))
	a := webhook(1)
	accept(t, s, a)
	lane := store.Lane{LaneID: store.LaneID{Queue: "webhooks", Endpoint: "shop/default"}, Max: 1}
	s.SetMinFree(1 << 60)
	if _, err := s.Accept(t.Context(), webhook(1)); !errors.Is(err, store.ErrFull) || !strings.Contains(err.Error(), "free on the disk") {
		t.Errorf("accepting: %v", err)
	}
	if err := s.Check(t.Context()); !errors.Is(err, store.ErrFull) {
		t.Errorf("checking: %v", err)
	}
	c, err := s.Claim(t.Context(), store.Claim{Token: uuid.New(), Lanes: []store.Lane{lane}, Lease: time.Minute})
	if err != nil || len(c.Jobs) != 1 {
		t.Fatalf("claiming: %v, %d jobs", err, len(c.Jobs))
	}
	if st, err := s.Stats(t.Context()); err != nil || len(st.Warnings) != 1 {
		t.Errorf("stats: %v %v", st.Warnings, err)
	}
	s.SetMinFree(1)
	accept(t, s, webhook(1))
}

func TestAFileThatIsTakenAwayIsNoticed(t *testing.T) {
	for name, take := range map[string]func(path string) error{
		"removed": os.Remove,
		"replaced": func(path string) error {
			return errors.Join(os.WriteFile(path+".backup", nil, 0o600), os.Rename(path+".backup", path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "anvil.db")
			s := open(t, path)
			accept(t, s, webhook(1))
			if err := take(path); err != nil {
				t.Fatal(err)
			}
			s.disk.next.Store(0) // look now rather than in a second
			if _, err := s.Accept(t.Context(), webhook(1)); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), name) {
				t.Errorf("accepting: %v", err)
			}
			if err := s.Check(t.Context()); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("checking: %v", err)
			}
		})
	}
}

func TestAClockThatWasSetBackDoesNotFreezeTheFigureOfFreeSpace(t *testing.T) {
	now := time.Now()
	s, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "anvil.db"), MinFree: 1, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	accept(t, s, webhook(1))
	s.disk.free.Store(0)
	if _, err := s.Accept(t.Context(), webhook(1)); !errors.Is(err, store.ErrFull) {
		t.Fatalf("within a second of the last look: %v", err)
	}
	now = now.Add(-time.Hour)
	accept(t, s, webhook(1))
}

func TestAClockThatWasSetBackDoesNotStopTheRemovalOfKeys(t *testing.T) {
	now := time.Now()
	s, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "anvil.db"), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	prune := func() {
		t.Helper()
		if _, err := s.Prune(t.Context(), store.Retention{}); err != nil {
			t.Fatal(err)
		}
	}
	// leftOfOne is how many keys there are after pruning when one more has come and ended.
	leftOfOne := func() (keys int) {
		t.Helper()
		a := webhook(1)
		a.Keys[0].TTL = time.Second
		accept(t, s, a)
		now = now.Add(2 * time.Second)
		prune()
		err := s.do(t.Context(), false, func(tx *tx) error {
			return tx.query("SELECT 1 FROM keys", func(*sqlite.Stmt) error { keys++; return nil })
		})
		if err != nil {
			t.Fatal(err)
		}
		return keys
	}

	prune() // the next walk is a minute from now
	now = now.Add(-time.Hour)
	if n := leftOfOne(); n != 0 {
		t.Errorf("%d keys are left after the clock was set back, want none", n)
	}
	if n := leftOfOne(); n != 1 {
		t.Errorf("%d keys are left within a minute of the last walk, want 1", n)
	}
}

func TestTheLogBeginsAnewWhileWritesGoOn(t *testing.T) {
	const most = 8 << 20
	s, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "anvil.db"), logMax: most})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	look, err := s.connect()
	if err != nil {
		t.Fatal(err)
	}
	defer look.Close()
	for written := 0; written < 2*most; written += 1 << 20 {
		accept(t, s, webhook(1<<20))
	}
	for deadline := time.Now().Add(time.Minute); ; accept(t, s, webhook(1)) {
		pages, _, err := checkpoint(look, "NOOP")
		if err == nil && pages*pageSize < most {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the log still has %d pages (%v)", pages, err)
		}
	}
}

func TestAPathKeepsItsNameWhenFilesComeIntoBeing(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, make := range map[string]func() (path, want string){
		"a link to a file that is not there yet": func() (string, string) {
			link(t, filepath.Join(base, "target.db"), filepath.Join(base, "dangling.db"))
			return filepath.Join(base, "dangling.db"), filepath.Join(base, "target.db")
		},
		"a relative link": func() (string, string) {
			link(t, "sub/../relative-target.db", filepath.Join(base, "relative.db"))
			return filepath.Join(base, "relative.db"), filepath.Join(base, "relative-target.db")
		},
		"a link above directories that are not there yet": func() (string, string) {
			if err := os.Mkdir(filepath.Join(base, "real"), 0o700); err != nil {
				t.Fatal(err)
			}
			link(t, filepath.Join(base, "real"), filepath.Join(base, "alias"))
			return filepath.Join(base, "alias", "made", "later", "anvil.db"), filepath.Join(base, "real", "made", "later", "anvil.db")
		},
	} {
		t.Run(name, func(t *testing.T) {
			path, want := make()
			before, err := Resolve(path)
			if err != nil || before != want {
				t.Fatalf("resolved to %s (%v), want %s", before, err, want)
			}
			s := open(t, path)
			after, err := Resolve(path)
			if err != nil || after != want || s.Describe() != "sqlite "+want {
				t.Errorf("resolved to %s (%v) once it was there; the store calls itself %s", after, err, s.Describe())
			}
		})
	}
	link(t, filepath.Join(base, "loop-b"), filepath.Join(base, "loop-a"))
	link(t, filepath.Join(base, "loop-a"), filepath.Join(base, "loop-b"))
	if p, err := Resolve(filepath.Join(base, "loop-a")); err == nil {
		t.Errorf("resolved a loop to %s", p)
	}
}

func link(t *testing.T, to, at string) {
	t.Helper()
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}

func TestSpaceOfPrunedEventsIsUsedAgain(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "anvil.db"))
	size := func() int64 {
		st, err := s.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return st.Bytes
	}
	fill := func() {
		for range 50 {
			a := webhook(100 << 10)
			a.Jobs[0].Observed = true
			accept(t, s, a)
		}
	}
	fill()
	first := size()
	for more := true; more; {
		var err error
		if more, err = s.Prune(t.Context(), store.Retention{}); err != nil {
			t.Fatal(err)
		}
	}
	fill()
	if second := size(); second > first*6/5 {
		t.Errorf("%d bytes after the first fill, %d after the second", first, second)
	}
}
