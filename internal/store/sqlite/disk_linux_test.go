package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
)

func TestAFullDiskRefusesWithoutLossAndRecoversByItself(t *testing.T) {
	dir := tinyDisk(t, "24m")
	s := open(t, filepath.Join(dir, "anvil.db"))
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 16<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	var taken []event.ID
	for range 1000 {
		a := webhook(64 << 10)
		_, err := s.Accept(t.Context(), a)
		if errors.Is(err, store.ErrFull) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, a.Event.ID)
	}
	if len(taken) == 1000 || len(taken) == 0 {
		t.Fatalf("%d webhooks of 64 KiB were taken on a disk of 8 MiB", len(taken))
	}
	// The check has to see it, too; small as its own write is, the log has no room left for it.
	if err := fillUp(filepath.Join(dir, "rest")); err != nil {
		t.Fatal(err)
	}
	s.disk.next.Store(0) // look now rather than in a second
	if err := s.Check(t.Context()); !errors.Is(err, store.ErrFull) {
		t.Errorf("checking a full disk: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "rest")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	s.disk.next.Store(0)
	a := webhook(64 << 10)
	accept(t, s, a)
	for _, id := range append(taken, a.Event.ID) {
		if _, _, err := s.Event(t.Context(), id); err != nil {
			t.Errorf("event %v: %v", id, err)
		}
	}
}

func fillUp(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if errors.Is(err, syscall.ENOSPC) {
		return nil
	}
	return err
}

// tinyDisk mounts a file system in memory.
func tinyDisk(t *testing.T, size string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting a small disk needs root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("mounting a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}
