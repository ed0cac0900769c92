package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	code := m.Run()
	var leak error
	if code == 0 && !poll(startTimeout, func() bool { leak = goleak.Find(); return leak == nil }) {
		fmt.Fprintln(os.Stderr, leak)
		code = 1
	}
	os.Exit(code)
}

func TestAKilledServerComesBackWithItsAppendOnlyFile(t *testing.T) {
	t.Parallel()
	s := Start(t, "--appendonly", "yes", "--appendfsync", "always")
	s.Do("SET", "k", "v")
	first, addr := s.Pid(), s.Addr()
	s.Kill()
	if conn, err := net.Dial("tcp", addr); err == nil {
		conn.Close()
		t.Error("something listens after the kill")
	}
	s.Start()
	if s.Pid() == first || s.Addr() != addr {
		t.Errorf("process %d at %s, want another than %d at %s", s.Pid(), s.Addr(), first, addr)
	}
	if got := s.Do("GET", "k"); got != "v" {
		t.Errorf("got %v after the restart, want v", got)
	}
}

func TestAKilledServerWithoutPersistenceComesBackEmpty(t *testing.T) {
	t.Parallel()
	s := Start(t)
	s.Do("SET", "k", "v")
	s.Kill()
	s.Start()
	if got := s.Do("GET", "k"); got != nil {
		t.Errorf("got %v after the restart, want nothing", got)
	}
}

func TestAShutdownSavesWhatArgsAskFor(t *testing.T) {
	t.Parallel()
	s := Start(t, "--save", "3600 1")
	s.Do("SET", "k", "v")
	s.Shutdown()
	s.Start()
	if got := s.Do("GET", "k"); got != "v" {
		t.Errorf("got %v after the shutdown, want v", got)
	}
}

func TestAFrozenServerAnswersAfterTheThaw(t *testing.T) {
	t.Parallel()
	s := Start(t)
	s.Freeze()
	answer := make(chan error, 1)
	go func() { answer <- s.Client().Ping(context.Background()).Err() }()
	select {
	case err := <-answer:
		t.Fatalf("a frozen server answered: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	s.Thaw()
	if err := <-answer; err != nil {
		t.Errorf("after the thaw: %v", err)
	}
}

func TestCommandsCountsOthersOnly(t *testing.T) {
	t.Parallel()
	s := Start(t)
	before := s.Commands()
	if again := s.Commands(); again != before {
		t.Errorf("counting alone went from %d to %d", before, again)
	}
	s.Do("PING")
	s.Do("PING")
	if n := s.Commands() - before; n != 2 {
		t.Errorf("counted %d commands, want 2", n)
	}
}

func TestAReplicaFollowsAMasterWithAPassword(t *testing.T) {
	t.Parallel()
	s := Start(t, "--requirepass", "hidden")
	r := StartReplica(t, s)
	s.Do("SET", "k", "v")
	if !poll(startTimeout, func() bool { return r.Do("GET", "k") == "v" }) {
		t.Error("the replica does not have the key")
	}
}

// awaitReplicas waits until so many replicas have all that was written.
func awaitReplicas(t *testing.T, s *Server, n int) {
	t.Helper()
	// Redis answers earlier than the client gives up.
	if !poll(startTimeout, func() bool { have, _ := s.Do("WAIT", n, 1000).(int64); return have >= int64(n) }) {
		t.Fatalf("%d replicas do not have all that was written", n)
	}
}

func TestATakenPortIsNotMistakenForTheServer(t *testing.T) {
	t.Parallel()
	other := Start(t)
	s := newServer(serverBinary, t.TempDir(), other.Port(), nil)
	t.Cleanup(s.Close)
	if err := s.configure(""); err != nil {
		t.Fatal(err)
	}
	if err := s.tryStart(); !errors.Is(err, errPortTaken) {
		t.Errorf("got %v, want %v", err, errPortTaken)
	}
}

func TestABadArgumentIsReportedWithTheLog(t *testing.T) {
	t.Parallel()
	need(t)
	_, err := Run(t.TempDir(), "--maxmemory", "nonsense")
	if err == nil || !strings.Contains(err.Error(), "maxmemory") {
		t.Errorf("got %v, want Redis' own words on maxmemory", err)
	}
}

func TestAMachineWithoutRedisIsToldHowToGetIt(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("ANVIL_REDIS_SERVER", "")
	if got := Missing(); !strings.Contains(got, "redis-server and redis-sentinel") || !strings.Contains(got, "make redis") {
		t.Errorf("got %q", got)
	}
}

func TestAnotherServerCanBeTried(t *testing.T) {
	need(t)
	dir := t.TempDir()
	for _, binary := range []string{serverBinary, sentinelBinary} {
		path, err := exec.LookPath(pathOf(binary))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, binary)); err != nil {
			t.Fatal(err)
		}
	}
	another := filepath.Join(dir, serverBinary)
	t.Setenv("ANVIL_REDIS_SERVER", another)
	if got := Start(t).Info("server", "executable"); got != another {
		t.Errorf("%s runs, want %s", got, another)
	}
	if got := StartSentinel(t).Sentinels[0].Info("server", "executable"); got != filepath.Join(dir, sentinelBinary) {
		t.Errorf("%s runs, want the Sentinel beside %s", got, another)
	}
	t.Setenv("ANVIL_REDIS_SERVER", filepath.Join(dir, "valkey-server"))
	if got := Missing(); !strings.Contains(got, "valkey-server and ") || !strings.Contains(got, "valkey-sentinel not found") {
		t.Errorf("got %q", got)
	}
}
