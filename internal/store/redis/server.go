package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

const (
	// oldest is the version that nothing we send is newer than.
	oldestMajor, oldestMinor = 6, 2
	// fullAt is the part of maxmemory at which new webhooks are refused. The rest is for finishing what is stored, and for
	// what comes in before the next look.
	fullAt = 0.9
	// memoryEvery is the rest between two looks at the memory while webhooks come in; nobody looks while none come.
	memoryEvery  = 500 * time.Millisecond
	inspectEvery = time.Minute
	// pingEvery keeps proxies from dropping the silent connection that wakes us, and finds out when one did.
	pingEvery = 10 * time.Second
)

var errUnusable = errors.New("this Redis cannot be used")

// server is what is known of the server beside its answers.
type server struct {
	mu       sync.Mutex
	warnings []string
	answers  bool // at the last inspection

	tooOld      atomic.Pointer[error] // nil when it is not, or does not tell
	used, limit atomic.Int64          // bytes of memory; limit is 0 for none
	looked      moment
	look        chan struct{}
	again       chan struct{}
}

// moment is when something was done last. It keeps the monotonic reading, which a number would lose: by the wall clock a
// pause would last longer by as much as that is set back. Reading it takes no lock and no memory: accepts come here.
type moment struct{ at atomic.Pointer[time.Time] }

func (m *moment) set() {
	now := time.Now()
	m.at.Store(&now)
}

// before tells whether it was longer ago than d, or never.
func (m *moment) before(d time.Duration) bool {
	at := m.at.Load()
	return at == nil || time.Since(*at) > d
}

func newServer() *server {
	return &server{look: make(chan struct{}, 1), again: make(chan struct{}, 1)}
}

// node is the server that holds our keys.
func (s *Store) node(ctx context.Context) (*redis.Client, error) {
	switch c := s.client.(type) {
	case *redis.ClusterClient:
		return c.MasterForKey(ctx, s.keys.of("meta"))
	case *redis.Client:
		return c, nil
	}
	return nil, fmt.Errorf("asking %T for a node: unknown kind of client", s.client)
}

// inspect looks at the server's version, settings and layout. Servers that do not tell are taken as they are.
func (s *Store) inspect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, min(s.o.AcceptTimeout, DefaultAcceptTimeout)) // Caddy's start waits for it
	defer cancel()
	err := s.inspectNode(ctx)
	s.server.mu.Lock()
	first := err == nil && !s.server.answers
	s.server.answers = err == nil
	s.server.mu.Unlock()
	if first {
		s.log.Info("Redis answers", zap.String("store", s.Describe()))
	}
	return err
}

func (s *Store) inspectNode(ctx context.Context) error {
	node, err := s.node(ctx)
	if err != nil {
		return err
	}
	layout, err := s.client.HGet(ctx, s.keys.of("meta"), "layout").Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	if layout != "" && layout != layoutVersion {
		return fmt.Errorf("%w: %w", errUnusable, newerLayout(layout))
	}
	text, err := node.Info(ctx).Result()
	var refused redis.Error
	if err != nil && !errors.As(err, &refused) {
		return err
	}
	info := parseInfo(text)
	if v := info["redis_version"]; older(v) {
		err := fmt.Errorf("%w: it is version %s; upgrade it to %d.%d or newer", errUnusable, v, oldestMajor, oldestMinor)
		s.server.tooOld.Store(&err)
		return err
	}
	s.server.tooOld.Store(nil)
	s.remember(info)
	s.warn(warningsOf(info))
	return nil
}

func older(version string) bool {
	var major, minor int
	if n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor); n < 2 {
		return false
	}
	return major < oldestMajor || major == oldestMajor && minor < oldestMinor
}

func warningsOf(info map[string]string) []string {
	var w []string
	if p := info["maxmemory_policy"]; p != "" && p != "noeviction" {
		w = append(w, fmt.Sprintf("Redis has maxmemory-policy %s: at its limit it evicts webhooks that were acknowledged, "+
			"or their dedupe keys; set it to noeviction", p))
	}
	if info["aof_enabled"] == "0" {
		w = append(w, "Redis has appendonly no: when it restarts, webhooks are lost that were acknowledged; set it to yes")
	}
	return w
}

// warn logs a warning once, until it is over.
func (s *Store) warn(now []string) {
	s.server.mu.Lock()
	before := s.server.warnings
	s.server.warnings = now
	s.server.mu.Unlock()
	for _, w := range now {
		if !slices.Contains(before, w) {
			s.log.Warn(w, zap.String("store", s.Describe()))
		}
	}
}

func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}

func (s *Store) remember(info map[string]string) {
	used, err := strconv.ParseInt(info["used_memory"], 10, 64)
	if err != nil {
		return
	}
	limit, _ := strconv.ParseInt(info["maxmemory"], 10, 64) // absent is none
	s.server.used.Store(used)
	s.server.limit.Store(limit)
	s.server.looked.set()
}

// full tells whether there is no room for new work, as of a moment ago.
func (s *Store) full() bool {
	if s.server.looked.before(memoryEvery) {
		select {
		case s.server.look <- struct{}{}:
		default:
		}
	}
	limit := s.server.limit.Load()
	return limit > 0 && float64(s.server.used.Load()) > fullAt*float64(limit)
}

func (s *Store) lookAtMemory(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, s.o.AcceptTimeout)
	defer cancel()
	var text string
	node, err := s.node(limited)
	if err == nil {
		text, err = node.Info(limited, "memory").Result()
	}
	switch {
	case err == nil:
		s.remember(parseInfo(text))
	case ctx.Err() == nil: // whoever leaves in the middle must not keep accepts from looking
		s.server.looked.set()
	}
}

// watch keeps what is known of the server up to date.
func (s *Store) watch(ctx context.Context) {
	tick := time.NewTicker(inspectEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.server.look:
			s.lookAtMemory(ctx)
			continue
		case <-s.server.again:
		case <-tick.C:
		}
		if err := s.inspect(ctx); errors.Is(err, errUnusable) {
			s.log.Error("every webhook is refused", zap.String("store", s.Describe()), zap.Error(err))
		}
	}
}

// listen wakes the workers when another instance has made a job due. After the connection was lost nobody knows what was
// missed, so a new one wakes as well.
func (s *Store) listen(ctx context.Context) {
	sub := s.client.Subscribe(ctx, s.keys.of("wake"))
	defer func() { _ = sub.Close() }() // it only ends the connection
	messages := sub.ChannelWithSubscriptions(redis.WithChannelHealthCheckInterval(pingEvery))
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-messages:
			switch m := m.(type) {
			case *redis.Message:
				if m.Payload != s.name {
					s.ring()
				}
			case *redis.Subscription:
				s.ring()
				select {
				case s.server.again <- struct{}{}:
				default:
				}
			}
		}
	}
}
