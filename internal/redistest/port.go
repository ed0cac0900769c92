package redistest

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
)

// portRange is where ports are drawn from: below the range from which systems take ports for outgoing connections. A server
// that was killed must find its port free when it is started again, and test binaries run side by side. So no two of them
// may draw the same one: who listens on the first port of a block has the rest of it for as long as its process lives.
type portRange struct {
	end, block int
	bus        int // what a cluster node adds to its port for its second one

	mu   sync.Mutex
	next int   // the block to ask for when those that we have are used up
	own  []int // the ports of our blocks
	turn int
	held []net.Listener
}

// These two ranges and that of the second ports of cluster nodes do not overlap.
var (
	singlePorts  = portRange{next: 10000, end: 17000, block: 500}
	clusterPorts = portRange{next: 7100, end: 7900, block: 100, bus: 10000}
)

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// freePort returns a port that nobody listens on, that this process has not drawn recently and that no other draws.
func freePort(cluster bool) (int, error) {
	if cluster {
		return clusterPorts.draw()
	}
	return singlePorts.draw()
}

func (r *portRange) draw() (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		for range r.own {
			port := r.own[r.turn%len(r.own)]
			r.turn++
			if bindable(port) && (r.bus == 0 || bindable(port+r.bus)) {
				return port, nil
			}
		}
		if !r.takeBlock() {
			return 0, errors.New("choosing a port: none is free on the loopback interface")
		}
	}
}

// takeBlock is false when there is none.
func (r *portRange) takeBlock() bool {
	for ; r.next < r.end; r.next += r.block {
		ln, err := listenOn(r.next)
		if err != nil {
			continue
		}
		r.held = append(r.held, ln)
		r.turn = len(r.own)
		for port := r.next + 1; port < r.next+r.block; port++ {
			r.own = append(r.own, port)
		}
		return true
	}
	return false
}

func listenOn(port int) (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(context.Background(), "tcp", loopback(port))
}

func bindable(port int) bool {
	ln, err := listenOn(port)
	if err != nil {
		return false
	}
	ln.Close()
	return true
}

func listens(port int) bool {
	conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", loopback(port))
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
