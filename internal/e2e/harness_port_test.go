package e2e

import (
	"fmt"
	"net"
	"sync"
	"testing"
)

// Ports are below the range from which the system takes ports for outgoing connections: a server that is killed and started
// again must find its port free. Servers of Caddy share a port without an error, so no two test binaries may draw the same
// one: who listens on the first port of a block has the rest of it for as long as its process lives.
const firstBlock, endOfBlocks, blockSize = 20000, 30000, 500

var ports struct {
	sync.Mutex
	block int // the next one to ask for
	left  []int
	held  []net.Listener
}

// listen takes a loopback port that this run has not used before.
func listen(t testing.TB) net.Listener {
	t.Helper()
	ports.Lock()
	defer ports.Unlock()
	for {
		for len(ports.left) > 0 {
			port := ports.left[0]
			ports.left = ports.left[1:]
			if ln, err := listenOn(port); err == nil {
				return ln
			}
		}
		if !takeBlock() {
			t.Fatal("no free port found")
		}
	}
}

// takeBlock is false when there is none.
func takeBlock() bool {
	if ports.block == 0 {
		ports.block = firstBlock
	}
	for ; ports.block < endOfBlocks; ports.block += blockSize {
		ln, err := listenOn(ports.block)
		if err != nil {
			continue
		}
		ports.held = append(ports.held, ln)
		for port := ports.block + 1; port < ports.block+blockSize; port++ {
			ports.left = append(ports.left, port)
		}
		return true
	}
	return false
}

func listenOn(port int) (net.Listener, error) {
	return net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
}

// freePort returns a loopback port that nobody listens on and that this run has not used before.
func freePort(t testing.TB) int {
	t.Helper()
	ln := listen(t)
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}
