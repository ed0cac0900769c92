package redistest

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Sentinel is a master with two replicas, watched by three sentinels of which two must agree. They take a server for down
// after five seconds without an answer; a busy machine must not have a master that lives replaced.
type Sentinel struct {
	Servers   []*Server // the first master, and its replicas
	Sentinels []*Server // the processes that watch; they too can be killed and frozen

	t testing.TB
}

const (
	masterName = "anvil-test"
	// failoverTimeout is so long because sentinels that had no processor for two seconds rest for the next thirty.
	failoverTimeout = 2 * time.Minute
)

// StartSentinel runs six processes that end with the test, and returns when every sentinel knows the whole set, so that a
// failover can succeed from the first moment on. The args are those of each Redis; with --requirepass among them, replicas
// and sentinels use that password too.
func StartSentinel(t testing.TB, args ...string) *Sentinel {
	t.Helper()
	return StartSentinelWithPassword(t, "", args...)
}

// StartSentinelWithPassword is StartSentinel with sentinels that ask for a password themselves.
func StartSentinelWithPassword(t testing.TB, password string, args ...string) *Sentinel {
	t.Helper()
	g := &Sentinel{t: t}
	redisPassword := option(args, "--requirepass")
	if redisPassword != "" {
		args = append([]string{"--masterauth", redisPassword}, args...) // a master of today is a replica of tomorrow
	}
	for range 3 {
		g.Servers = append(g.Servers, Start(t, args...))
	}
	master := g.Servers[0]
	for _, s := range g.Servers[1:] {
		// Not as an argument: that would make a promoted replica a replica again when it is restarted.
		s.Do("REPLICAOF", "127.0.0.1", master.port)
		s.Do("CONFIG", "REWRITE")
	}
	conf := fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]d 2\nsentinel down-after-milliseconds %[1]s 5000\nsentinel failover-timeout %[1]s 3000\n", masterName, master.port)
	if redisPassword != "" {
		conf += fmt.Sprintf("sentinel auth-pass %s %q\n", masterName, redisPassword)
	}
	var own []string
	if password != "" {
		own = []string{"--requirepass", password}
		conf += fmt.Sprintf("sentinel sentinel-pass %q\n", password)
	}
	for range 3 {
		s, err := run(sentinelBinary, t.TempDir(), false, conf, own)
		if err != nil {
			t.Fatal(err)
		}
		s.belongTo(t)
		g.Sentinels = append(g.Sentinels, s)
	}
	for _, s := range g.Sentinels {
		s.await("the discovery of the other sentinels and the replicas", func() bool { return complete(s) })
	}
	return g
}

// complete reports whether a sentinel knows two healthy replicas and two other sentinels.
func complete(s *Server) bool {
	replicas := sentinelList(s, "REPLICAS")
	for _, r := range replicas {
		if r["flags"] != "slave" || r["master-link-status"] != "ok" {
			return false
		}
	}
	return len(replicas) == 2 && len(sentinelList(s, "SENTINELS")) == 2
}

func sentinelList(s *Server, what string) []map[string]string {
	cmd := redis.NewMapStringStringSliceCmd(context.Background(), "SENTINEL", what, masterName)
	_ = s.client.Process(context.Background(), cmd)
	return cmd.Val()
}

// MasterName is the name under which the sentinels know the master.
func (*Sentinel) MasterName() string { return masterName }

// Addrs are the addresses of the sentinels.
func (g *Sentinel) Addrs() []string { return addrs(g.Sentinels) }

// Master is the server that most of the sentinels name as master now; a master that just died may still be it.
func (g *Sentinel) Master() *Server {
	g.t.Helper()
	var master *Server
	if !poll(startTimeout, func() bool { master, _ = g.elected(); return master != nil }) {
		g.t.Fatal("asking the sentinels for the master: no two of them agree")
	}
	return master
}

// elected is the server that at least two sentinels name, or nil, and whether all that answer name it.
func (g *Sentinel) elected() (master *Server, unanimous bool) {
	votes, answers := map[string]int{}, 0
	for _, s := range running(g.Sentinels) {
		ctx, cancel := lookContext()
		addr, err := s.client.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName).StringSlice()
		cancel()
		if err == nil && len(addr) == 2 {
			answers++
			votes[net.JoinHostPort(addr[0], addr[1])]++
		}
	}
	for _, s := range g.Servers {
		if n := votes[s.Addr()]; n >= 2 {
			return s, n == answers
		}
	}
	return nil, false
}

// WaitFailover waits until the sentinels have made another server than old the master and all that answer name it, and
// returns it.
func (g *Sentinel) WaitFailover(old *Server) *Server {
	g.t.Helper()
	var now *Server
	done := poll(failoverTimeout, func() bool {
		var unanimous bool
		now, unanimous = g.elected()
		if !unanimous || now == old {
			return false
		}
		text, err := now.info("replication")
		return err == nil && infoField(text, "role") == "master"
	})
	if !done {
		g.t.Fatalf("waiting for a failover from %s: it did not happen within %s", old.Addr(), failoverTimeout)
	}
	return now
}
