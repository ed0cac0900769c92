package e2e

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

// waitFor polls cond until it holds. What is awaited lives in another process, so there is no channel to wait on.
func waitFor(t testing.TB, within time.Duration, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(within)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-deadline:
			if cond() {
				return // it was this test that had no processor to look again in time
			}
			t.Fatalf("after %s: %s did not happen", within, what)
		case <-tick.C:
		}
	}
}

// holds fails the test if cond stops holding within the time given. It is for "and nothing more comes".
func holds(t testing.TB, during time.Duration, what string, cond func() bool) {
	t.Helper()
	end := time.After(during)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if !cond() {
			t.Fatalf("%s held no longer", what)
		}
		select {
		case <-end:
			return
		case <-tick.C:
		}
	}
}

var nextPort atomic.Int32

func init() {
	// Below the range from which the system takes ports for outgoing connections: a server that is killed and started
	// again must find its port free.
	nextPort.Store(int32(20000 + os.Getpid()%100*100))
}

// listen takes a loopback port that this run has not used before.
func listen(t testing.TB) net.Listener {
	t.Helper()
	for range 2000 {
		if ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", nextPort.Add(1))); err == nil {
			return ln
		}
	}
	t.Fatal("no free port found")
	return nil
}

// freePort returns a loopback port that nobody listens on and that this run has not used before.
func freePort(t testing.TB) int {
	t.Helper()
	ln := listen(t)
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}
