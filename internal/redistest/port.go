package redistest

import (
	"context"
	"net"
	"strconv"

	"github.com/caddy-anvil/anvil/internal/testport"
)

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func freePort(cluster bool) (int, error) {
	if cluster {
		return testport.ClusterNodes.Free()
	}
	return testport.Redis.Free()
}

func listens(port int) bool {
	conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", loopback(port))
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
