package redis_test

import (
	"bufio"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/redistest"
	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/store/redis"
)

// crowded is a store with n jobs, of which three are dead, on a Redis of its own.
type crowded struct {
	*redis.Store
	server *redistest.Server
	heard  *bufio.Reader // of MONITOR
	marks  int
}

func newCrowded(t *testing.T, n int) *crowded {
	t.Helper()
	const each = 100 // jobs of one event
	server := redistest.Start(t)
	s := on(t, server)
	for range n / each {
		a := webhook()
		for range each - 1 {
			a.Jobs = append(a.Jobs, store.NewJob{ID: newID(), Queue: hooks.Queue, Endpoint: hooks.Endpoint})
		}
		acceptThis(t, s, a)
	}
	_, leases := claim(t, s, 3)
	for _, l := range leases {
		finish(t, s, outcome(l, event.Dead))
	}
	monitor, err := net.Dial("tcp", server.Addr())
	must(t, err)
	t.Cleanup(func() { monitor.Close() })
	must(t, monitor.SetDeadline(time.Now().Add(10*time.Minute)))
	_, err = io.WriteString(monitor, "MONITOR\r\n")
	must(t, err)
	c := &crowded{Store: s, server: server, heard: bufio.NewReader(monitor)}
	if line := c.hear(t); line != "+OK" {
		t.Fatalf("monitoring answered %q", line)
	}
	return c
}

func (c *crowded) hear(t *testing.T) string {
	t.Helper()
	line, err := c.heard.ReadString('\n')
	must(t, err)
	return strings.TrimRight(line, "\r\n")
}

// commands are what Redis has been asked for since the last call, by scripts too.
func (c *crowded) commands(t *testing.T) (all [][]any) {
	t.Helper()
	c.marks++
	mark := "mark-" + strconv.Itoa(c.marks)
	c.server.Do("ECHO", mark)
	for {
		// +1700000000.000000 [0 lua] "hgetall" "anvil:counts"
		_, text, found := strings.Cut(c.hear(t), "] ")
		var words []any
		for found {
			quoted, err := strconv.QuotedPrefix(text)
			must(t, err)
			word, err := strconv.Unquote(quoted)
			must(t, err)
			words = append(words, word)
			_, text, found = strings.Cut(text[len(quoted):], " ")
		}
		if len(words) == 2 && words[1] == mark {
			return all
		}
		all = append(all, words)
	}
}

// cost is what Redis reads for a question: the size of the answers to its reading commands, which are asked again one by
// one because those within a script are not seen outside, and one for each other command.
func (c *crowded) cost(t *testing.T, ask func(*testing.T, *redis.Store)) (sum int) {
	t.Helper()
	c.commands(t)
	ask(t, c.Store)
	for _, words := range c.commands(t) {
		sum++
		if c.readsOnly(words[0]) {
			sum += size(c.server.Do(words...))
		}
	}
	return sum
}

func (c *crowded) readsOnly(command any) bool {
	about, _ := c.server.Do("COMMAND", "INFO", command).([]any)
	if len(about) != 1 {
		return false
	}
	facts, _ := about[0].([]any) // name, arity, flags
	if len(facts) < 3 {
		return false
	}
	flags, _ := facts[2].([]any)
	return slices.Contains(flags, any("readonly"))
}

// size of an answer in bytes.
func size(answer any) (n int) {
	switch a := answer.(type) {
	case string:
		return len(a)
	case []any:
		for _, part := range a {
			n += size(part)
		}
	case map[any]any:
		for k, v := range a {
			n += size(k) + size(v)
		}
	default:
		return 8
	}
	return n
}

// Statistics are scraped every few seconds and lists are looked at while webhooks come in: nothing may go through all jobs.
// Redis does nothing else meanwhile.
func TestWhatOperatorsAskForReadsNoMoreWithManyJobs(t *testing.T) {
	const few, many = 2000, 20_000
	small, large := newCrowded(t, few), newCrowded(t, many)
	all := func(c *crowded) func(*testing.T, *redis.Store) {
		return func(*testing.T, *redis.Store) {
			c.server.Do("EVAL", "for _, key in ipairs(redis.call('KEYS', '*jobs')) do redis.call('HGETALL', key) end", 0)
		}
	}
	if among, amongMany := small.cost(t, all(small)), large.cost(t, all(large)); amongMany < 5*among {
		t.Fatalf("nobody would notice a walk through all jobs: %d bytes among %d, %d among %d", among, few, amongMany, many)
	}
	dead, pending := event.Dead, event.Pending
	jobs := func(f store.JobFilter, want int) func(*testing.T, *redis.Store) {
		return func(t *testing.T, s *redis.Store) {
			t.Helper()
			if got, _, err := s.Jobs(t.Context(), f); err != nil || len(got) != want {
				t.Errorf("listing %+v: %d jobs, %v; want %d", f, len(got), err, want)
			}
		}
	}
	for name, ask := range map[string]func(*testing.T, *redis.Store){
		"statistics": func(t *testing.T, s *redis.Store) {
			st, err := s.Stats(t.Context())
			if err != nil || len(st.Lanes) != 1 || st.Lanes[0].Jobs[dead] != 3 || st.Lanes[0].Jobs[pending] < few-3 {
				t.Errorf("statistics %+v, %v", st, err)
			}
		},
		"newest jobs":         jobs(store.JobFilter{Limit: 100}, 100),
		"pending jobs":        jobs(store.JobFilter{Limit: 100, State: &pending}, 100),
		"the few dead jobs":   jobs(store.JobFilter{Limit: 100, State: &dead}, 3),
		"jobs of an endpoint": jobs(store.JobFilter{Limit: 100, Endpoint: hooks.Endpoint}, 100),
		"newest events": func(t *testing.T, s *redis.Store) {
			if got, _, err := s.Events(t.Context(), store.EventFilter{Limit: 10}); err != nil || len(got) != 10 {
				t.Errorf("%d events, %v", len(got), err)
			}
		},
		"a health check": func(t *testing.T, s *redis.Store) { must(t, s.Check(t.Context())) },
	} {
		t.Run(name, func(t *testing.T) {
			among, amongMany := small.cost(t, ask), large.cost(t, ask)
			if amongMany > among+among/5+100 {
				t.Errorf("Redis reads %d bytes among %d jobs, %d among %d", among, few, amongMany, many)
			}
		})
	}
}
