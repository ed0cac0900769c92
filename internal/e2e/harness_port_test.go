package e2e

import (
	"net"
	"testing"

	"github.com/caddy-anvil/anvil/internal/testport"
)

// listen takes a loopback port that this run has not used before.
func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := testport.EndToEnd.Listen()
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// freePort returns a loopback port that nobody listens on and that this run has not used before.
func freePort(t testing.TB) int {
	t.Helper()
	port, err := testport.EndToEnd.Free()
	if err != nil {
		t.Fatal(err)
	}
	return port
}
