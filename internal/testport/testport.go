// Package testport gives tests loopback ports that the tests of no other process draw.
//
// Test binaries run side by side. A server that is killed must find its port free when it is started again, and servers of
// Caddy share a port without an error. So whoever listens on the first port of a block has the rest of it for as long as
// its process lives.
package testport

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
)

// The ranges lie below the one from which systems take ports for outgoing connections, and do not overlap: the second ports
// of cluster nodes are 17100 to 17899.
var (
	ClusterNodes = &Range{next: 7100, end: 7900, block: 100, second: 10000}
	Redis        = &Range{next: 10000, end: 17000, block: 500}
	EndToEnd     = &Range{next: 20000, end: 30000, block: 500}
	Plugin       = &Range{next: 30000, end: 32500, block: 500}
)

var errNone = errors.New("choosing a port: none is free on the loopback interface")

// Range is where ports are drawn from.
type Range struct {
	end, block int
	second     int // what is added to a port for another one that has to be free as well

	mu   sync.Mutex
	next int   // the block to ask for when those that we have are used up
	own  []int // the ports of our blocks
	turn int
	held []net.Listener
}

// Listen listens on a port. None is given twice before all have been.
func (r *Range) Listen() (net.Listener, error) {
	ln, _, err := r.draw()
	return ln, err
}

// Free is a port that nobody listens on. None is given twice before all have been.
func (r *Range) Free() (int, error) {
	ln, port, err := r.draw()
	if err != nil {
		return 0, err
	}
	return port, ln.Close()
}

func (r *Range) draw() (net.Listener, int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for again := false; ; again = true {
		for r.turn < len(r.own) || r.takeBlock() {
			port := r.own[r.turn]
			r.turn++
			if ln := r.listen(port); ln != nil {
				return ln, port, nil
			}
		}
		if again {
			return nil, 0, errNone
		}
		r.turn = 0
	}
}

// listen is nil where somebody else is.
func (r *Range) listen(port int) net.Listener {
	ln, err := On(port)
	if err != nil {
		return nil
	}
	if r.second != 0 {
		other, err := On(port + r.second)
		if err != nil {
			ln.Close()
			return nil
		}
		other.Close()
	}
	return ln
}

// takeBlock is false when there is none.
func (r *Range) takeBlock() bool {
	for r.next < r.end {
		first := r.next
		r.next += r.block
		ln, err := On(first)
		if err != nil {
			continue
		}
		r.held = append(r.held, ln)
		for port := first + 1; port < first+r.block; port++ {
			r.own = append(r.own, port)
		}
		return true
	}
	return false
}

// On listens on one port.
func On(port int) (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(context.Background(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}
