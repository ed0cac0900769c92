package redis

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"go.uber.org/zap"
)

// DefaultAcceptTimeout is how long an accept waits for Redis before the sender is told to try again.
const DefaultAcceptTimeout = 2 * time.Second

// Options say where Redis is. Exactly one of Addr, Master and Cluster is set.
type Options struct {
	// Addr is a server's host:port, or the absolute path of its unix socket.
	Addr string
	// Master is the name under which the Sentinels know the server.
	Master    string
	Sentinels []string
	// SentinelUsername and SentinelPassword are the Sentinels' own.
	SentinelUsername, SentinelPassword string
	// Cluster are some nodes of a cluster; the others are learnt from them.
	Cluster []string

	// DB is the number of the database, 0 in a cluster.
	DB                 int
	Username, Password string
	// Prefix begins every key, so that several deployments can share a server.
	Prefix string
	// TLS is nil for plain TCP.
	TLS *tls.Config

	// PoolSize and the rest up to DialTimeout are the connection pool's; 0 means the library's default.
	PoolSize, MinIdle                     int
	PoolTimeout, MaxIdleTime, DialTimeout time.Duration

	// AcceptTimeout bounds every call but those with a large payload; 0 means DefaultAcceptTimeout.
	AcceptTimeout time.Duration
	// Replicas is how many replicas must have an accepted event before it is acknowledged; 0 waits for none.
	Replicas int

	Log *zap.Logger
}

func (o *Options) universal() *redis.UniversalOptions {
	poolTimeout := o.PoolTimeout
	if poolTimeout == 0 {
		poolTimeout = o.AcceptTimeout + time.Second
	}
	u := &redis.UniversalOptions{
		DB: o.DB, Username: o.Username, Password: o.Password, TLSConfig: o.TLS,
		MasterName: o.Master, SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword,
		PoolSize: o.PoolSize, MinIdleConns: o.MinIdle, PoolTimeout: poolTimeout, ConnMaxIdleTime: o.MaxIdleTime,
		DialTimeout: o.DialTimeout, ReadTimeout: largeTimeout, WriteTimeout: largeTimeout, // the contexts say less
		ContextTimeoutEnabled: true,
		// What every server since 6.2 speaks, and forks and proxies too.
		Protocol: 2, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	switch {
	case o.Master != "":
		u.Addrs = o.Sentinels
	case len(o.Cluster) > 0:
		u.Addrs, u.IsClusterMode = o.Cluster, true
	default:
		u.Addrs = []string{o.Addr}
	}
	return u
}

func (o *Options) client() redis.UniversalClient {
	u := o.universal()
	if strings.HasPrefix(o.Addr, "/") {
		simple := u.Simple()
		simple.Network = "unix"
		return redis.NewClient(simple)
	}
	return redis.NewUniversalClient(u)
}

// describe names the place without secrets.
func (o *Options) describe() string {
	place := o.Addr
	switch {
	case o.Master != "":
		place = fmt.Sprintf("sentinel %s of %s", o.Master, strings.Join(o.Sentinels, " "))
	case len(o.Cluster) > 0:
		place = "cluster " + strings.Join(o.Cluster, " ")
	}
	return fmt.Sprintf("redis %s db %d prefix %s", place, o.DB, o.Prefix)
}

// check refuses what would otherwise fail much later.
func (o *Options) check() error {
	n := 0
	for _, set := range []bool{o.Addr != "", o.Master != "", len(o.Cluster) > 0} {
		if set {
			n++
		}
	}
	if n != 1 {
		return fmt.Errorf("opening redis store: it needs exactly one of an address, sentinels and a cluster, not %d of them", n)
	}
	if strings.ContainsAny(o.Prefix, "{}") || o.Prefix == "" {
		return fmt.Errorf("opening redis store: prefix %q must not be empty nor have braces, which mark the slot in a cluster", o.Prefix)
	}
	for _, addr := range append(append([]string{}, o.Sentinels...), o.Cluster...) {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return fmt.Errorf("opening redis store: %q is not host:port", addr)
		}
	}
	return nil
}
