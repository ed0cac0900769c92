// Package redistest runs real Redis servers for tests and benchmarks: single ones, replicas, a set under Sentinel, a
// Cluster, and a TCP proxy in front of any of them that misbehaves on demand.
//
// Every server is a process of its own on a free loopback port and in a folder of its own, and ends with the test that
// started it. Nothing is shared with a Redis that the machine may run already.
//
// ANVIL_REDIS_SERVER is the absolute path of a server to use instead of redis-server in PATH, of a Valkey for example; its
// Sentinel lies beside it.
package redistest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

const (
	serverBinary   = "redis-server"
	sentinelBinary = "redis-sentinel"
)

// pathOf is what is run in the part of one of our binaries: /opt/valkey/valkey-sentinel beside /opt/valkey/valkey-server.
func pathOf(binary string) string {
	server := os.Getenv("ANVIL_REDIS_SERVER")
	switch {
	case server == "":
		return binary
	case binary == sentinelBinary:
		return strings.TrimSuffix(server, "-server") + "-sentinel"
	}
	return server
}

// Missing says what this machine lacks to run Redis and how to get it; it is empty when everything is there.
func Missing() string {
	var missing []string
	for _, binary := range []string{serverBinary, sentinelBinary} {
		path := pathOf(binary)
		if _, err := exec.LookPath(path); err != nil {
			missing = append(missing, path)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return strings.Join(missing, " and ") + " not found in PATH: run `make redis`, or install Redis 6.2 or newer by hand"
}

// need skips the test on a machine without Redis. Where ANVIL_NEED_REDIS is set, as `make test` does, a skipped test would
// be a silent gap, so it fails instead.
func need(t testing.TB) {
	t.Helper()
	missing := Missing()
	switch {
	case missing == "":
	case os.Getenv("ANVIL_NEED_REDIS") != "":
		t.Fatal(missing)
	default:
		t.Skip(missing)
	}
}
