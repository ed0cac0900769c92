package redistest

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"sync/atomic"
)

// Ports are drawn below the range from which systems take ports for outgoing connections, so that a server that was killed
// finds its port free when it is started again. Test binaries run side by side, so each begins somewhere else.
const (
	singleFrom, singlePorts = 10000, 7000
	// A cluster node listens on its port and on that plus 10000; these two ranges overlap neither each other nor singles.
	clusterFrom, clusterPorts = 7100, 800
	busOffset                 = 10000
)

var drawn atomic.Int32

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// freePort returns a port that nobody listens on and that this process has not drawn recently. Another process may still
// take it before it is used.
func freePort(cluster bool) (int, error) {
	from, count := singleFrom, singlePorts
	if cluster {
		from, count = clusterFrom, clusterPorts
	}
	for range count {
		port := from + (os.Getpid()*37+int(drawn.Add(1)))%count
		if bindable(port) && (!cluster || bindable(port+busOffset)) {
			return port, nil
		}
	}
	return 0, errors.New("choosing a port: none is free on the loopback interface")
}

func bindable(port int) bool {
	ln, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", loopback(port))
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
