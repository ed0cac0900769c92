package redistest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is one Redis process that can be killed, frozen and started again on the same port and folder. Its methods are
// safe to use from several goroutines, except that only one may start or stop it at a time.
type Server struct {
	dir      string
	port     int
	binary   string
	args     []string
	client   *redis.Client
	fail     func(format string, args ...any) // does not return
	password string

	mu    sync.Mutex
	child *child // the last process started

	asked atomic.Int64 // INFO commands that Commands sent to the present process
}

// startTimeout is how long a server may take to answer, loading its data included.
const startTimeout = time.Minute

// Start runs a Redis that ends with the test, and returns when it answers. It has an empty data set and no persistence
// unless args, in the form of redis-server's command line, say otherwise: `Start(t, "--appendonly", "yes")`. Port, folder
// and address are not for args to change. Its log is shown when the test fails. See Missing for machines without Redis.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	need(t)
	s, err := Run(t.TempDir(), args...)
	if err != nil {
		t.Fatal(err)
	}
	s.belongTo(t)
	return s
}

// StartReplica runs a Redis that replicates of, and returns when it is in sync. A password of of's in its args is used.
func StartReplica(t testing.TB, of *Server, args ...string) *Server {
	t.Helper()
	all := []string{"--replicaof", "127.0.0.1 " + strconv.Itoa(of.port)}
	if of.password != "" {
		all = append(all, "--masterauth", of.password, "--requirepass", of.password)
	}
	s := Start(t, append(all, args...)...)
	s.await("the first sync with the master", func() bool { return s.Info("replication", "master_link_status") == "up" })
	// The master counts it a moment later.
	online := fmt.Sprintf("port=%d,state=online", s.port)
	s.await("the master's list of replicas", func() bool {
		text, err := of.info("replication")
		return err == nil && strings.Contains(text, online)
	})
	// A new replica gets what is written only after its first acknowledgement, up to a second later.
	s.await("the replica's first acknowledgement", func() bool {
		p := of.client.Pipeline()
		p.Set(t.Context(), "redistest", "1", 0)
		acknowledged := p.Do(t.Context(), "WAIT", of.Info("replication", "connected_slaves"), 1000)
		p.Del(t.Context(), "redistest")
		_, err := p.Exec(t.Context())
		n, _ := acknowledged.Int()
		return err == nil && strconv.Itoa(n) == of.Info("replication", "connected_slaves")
	})
	return s
}

// Run is Start without a test: the server lives in dir, which must exist, until Close. Where a test would fail, the
// methods of such a server panic.
func Run(dir string, args ...string) (*Server, error) {
	return run(serverBinary, dir, false, "", args)
}

// run starts binary on a port of its own; conf is the first content of its configuration file. Redis rewrites that file
// when Sentinel makes it a master or a replica, and finds what it wrote at the next start, as in production.
func run(binary, dir string, cluster bool, conf string, args []string) (*Server, error) {
	for attempt := 1; ; attempt++ {
		port, err := freePort(cluster)
		if err != nil {
			return nil, err
		}
		s := newServer(binary, dir, port, args)
		if err := s.configure(conf); err != nil {
			return nil, err
		}
		err = s.tryStart()
		if err == nil {
			return s, nil
		}
		s.Close()
		// Between the choice of a port and its use, someone else can take it.
		if !errors.Is(err, errPortTaken) || attempt == 5 {
			return nil, err
		}
	}
}

func newServer(binary, dir string, port int, args []string) *Server {
	s := &Server{
		dir: dir, port: port, binary: binary, args: args, password: option(args, "--requirepass"),
		fail: func(format string, args ...any) { panic(fmt.Sprintf(format, args...)) },
	}
	s.client = redis.NewClient(clientOptions(s.Addr(), s.password))
	return s
}

// option returns the value of the last --name in args.
func option(args []string, name string) string {
	value := ""
	for i := 1; i < len(args); i++ {
		if args[i-1] == name {
			value = args[i]
		}
	}
	return value
}

func (s *Server) belongTo(t testing.TB) {
	t.Helper()
	s.fail = func(format string, args ...any) {
		t.Helper()
		t.Fatalf(format, args...)
	}
	t.Cleanup(func() {
		s.Close()
		if t.Failed() {
			t.Logf("log of %s on port %d, its end:\n%s", s.binary, s.port, s.logTail(30))
		}
	})
}

// Addr is the server's host and port.
func (s *Server) Addr() string { return loopback(s.port) }

// Port is the port that the server listens on.
func (s *Server) Port() int { return s.port }

// Dir is the folder with the server's data, its log redis.log and its configuration redis.conf.
func (s *Server) Dir() string { return s.dir }

// Password is what args gave as requirepass, or "".
func (s *Server) Password() string { return s.password }

func (s *Server) logPath() string { return filepath.Join(s.dir, "redis.log") }

// Client is a client for looking at the server. It belongs to the server, repeats nothing and waits 30 s at most.
func (s *Server) Client() *redis.Client { return s.client }

// Do runs one command through Client and returns its answer, nil for a nil reply. An error is fatal to the test.
func (s *Server) Do(args ...any) any {
	v, err := s.client.Do(context.Background(), args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		s.fail("asking redis on port %d for %v: %v", s.port, args, err)
	}
	return v
}

// Info returns a field of a section of INFO, "" when the section has no such field. An error is fatal to the test.
func (s *Server) Info(section, field string) string {
	text, err := s.info(section)
	if err != nil {
		s.fail("asking redis on port %d for its info %s: %v", s.port, section, err)
	}
	return infoField(text, field)
}

func (s *Server) info(section string) (string, error) {
	ctx := context.Background()
	text, err := s.client.Info(ctx, section).Result()
	if errors.Is(err, io.EOF) {
		// Sentinel closes the connections of a server whose role it changes.
		text, err = s.client.Info(ctx, section).Result()
	}
	return text, err
}

// Commands is how many commands the server has processed since it was started, those of Client included but not those of
// Commands itself. A script counts as one and one more for each of its calls; replicas and sentinels count too.
func (s *Server) Commands() int64 {
	n, err := strconv.ParseInt(s.Info("stats", "total_commands_processed"), 10, 64)
	if err != nil {
		s.fail("reading total_commands_processed: %v", err)
	}
	return n - (s.asked.Add(1) - 1)
}

func infoField(text, field string) string {
	for line := range strings.SplitSeq(text, "\r\n") {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return value
		}
	}
	return ""
}

func addrs(servers []*Server) []string {
	all := make([]string, 0, len(servers))
	for _, s := range servers {
		all = append(all, s.Addr())
	}
	return all
}

func running(servers []*Server) []*Server {
	return slices.DeleteFunc(slices.Clone(servers), func(s *Server) bool { return !s.Running() })
}

// await polls until cond holds: what it waits for happens in another process.
func (s *Server) await(what string, cond func() bool) {
	if !poll(startTimeout, cond) {
		s.fail("waiting for %s of redis on port %d: it did not happen within %s", what, s.port, startTimeout)
	}
}

// poll reports whether cond came to hold in time.
func poll(within time.Duration, cond func() bool) bool {
	deadline := time.After(within)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-deadline:
			return false
		case <-tick.C:
		}
	}
	return true
}
