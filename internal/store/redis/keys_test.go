package redis_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/redistest"
	"github.com/caddy-anvil/anvil/internal/store/redis"
)

func TestEveryKeyIsBelowThePrefixAndOnlyDedupeKeysHaveATTL(t *testing.T) {
	server := redistest.Start(t)
	everything(t, on(t, server))
	all, err := server.Client().Keys(t.Context(), "*").Result()
	must(t, err)
	for _, key := range all {
		if !strings.HasPrefix(key, "{anvil}:") {
			t.Errorf("key %q is not below the prefix", key)
		}
		dedupe := strings.HasPrefix(key, "{anvil}:key:")
		ttl := server.Client().PTTL(t.Context(), key).Val()
		if ttl == -2 {
			continue // it has ended since
		}
		if dedupe && (ttl <= 0 || ttl > time.Hour) || !dedupe && ttl != -1 {
			t.Errorf("key %q has TTL %v", key, ttl)
		}
	}
	if len(all) < 10 {
		t.Fatalf("%d keys, the test has looked at nothing", len(all))
	}
}

// A server that routes by declared keys, as clusters and proxies do, must know all of them before a script runs.
func TestScriptsTouchOnlyTheKeysTheyDeclare(t *testing.T) {
	server := redistest.Start(t)
	lines := monitor(t, server.Addr())
	s := on(t, server)
	everything(t, s)
	must(t, server.Client().Set(t.Context(), "the end", "1", 0).Err())

	declared := map[string]bool{}
	var texts []string // a new server is told each script; from then on its hash does
	for {
		words, lua := parseMonitor(t, <-lines)
		switch {
		case !lua && words[0] == "set" && words[1] == "the end":
			wantAllScripts(t, texts)
			return
		case !lua && (words[0] == "evalsha" || words[0] == "eval"):
			n, err := strconv.Atoi(words[2])
			must(t, err)
			clear(declared)
			for _, key := range words[3 : 3+n] {
				declared[key] = true
			}
			if words[0] == "eval" {
				texts = append(texts, words[1])
			}
		case lua && words[0] != "time" && words[0] != "publish":
			if !declared[words[1]] {
				t.Errorf("%s of undeclared key %q", words[0], words[1])
			}
		}
	}
}

// wantAllScripts fails the test unless each file is the end of one of the texts.
func wantAllScripts(t *testing.T, texts []string) {
	t.Helper()
	files, err := filepath.Glob("lua/*.lua")
	must(t, err)
	if len(files) < 2 {
		t.Fatalf("%d files of scripts, the test has looked at nothing", len(files))
	}
	prelude, err := os.ReadFile("lua/prelude.lua")
	must(t, err)
	for _, file := range files {
		source, err := os.ReadFile(file)
		must(t, err)
		end := string(prelude) + string(source)
		if file != "lua/prelude.lua" && !slices.ContainsFunc(texts, func(text string) bool { return strings.HasSuffix(text, end) }) {
			t.Errorf("%s was not run", file)
		}
	}
}

// monitor gives the lines of Redis' MONITOR.
func monitor(t *testing.T, addr string) <-chan string {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	_, err = fmt.Fprint(conn, "MONITOR\r\n")
	must(t, err)
	r := bufio.NewReader(conn)
	if line, err := r.ReadString('\n'); err != nil || line != "+OK\r\n" {
		t.Fatalf("MONITOR answered %q, %v", line, err)
	}
	lines := make(chan string, 100_000)
	go func() {
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			lines <- line
		}
	}()
	return lines
}

// parseMonitor reads `+<time> [<db> lua|<addr>] "<word>" ...`.
func parseMonitor(t *testing.T, line string) (words []string, lua bool) {
	t.Helper()
	_, rest, _ := strings.Cut(line, "[")
	from, rest, _ := strings.Cut(rest, "] ")
	for rest = strings.TrimSpace(rest); rest != ""; rest = strings.TrimSpace(rest) {
		word, err := strconv.QuotedPrefix(rest)
		must(t, err)
		rest = rest[len(word):]
		plain, err := strconv.Unquote(word)
		must(t, err)
		words = append(words, plain)
	}
	if len(words) == 0 {
		t.Fatalf("line %q of MONITOR", line)
	}
	words[0] = strings.ToLower(words[0])
	return words, strings.HasSuffix(from, " lua")
}

func TestTwoPrefixesOnOneServerDoNotMeet(t *testing.T) {
	server := redistest.Start(t)
	one := on(t, server)
	other := on(t, server, func(o *redis.Options) { o.Prefix = "other" })
	a := webhook()
	acceptThis(t, one, a)
	acceptThis(t, other, a) // neither its key nor its id is known there
	kill(t, one)
	pruneAll(t, one, 0)
	if jobs, _ := claim(t, other, 10); len(jobs) != 1 {
		t.Fatalf("%d jobs under the other prefix, want 1", len(jobs))
	}
}

func TestNothingIsLeftOfWhatWasPrunedAndWhoseKeysHaveEnded(t *testing.T) {
	server := redistest.Start(t)
	s := on(t, server)
	for range 5 {
		a := webhook()
		a.Keys[0].TTL = 50 * time.Millisecond
		acceptThis(t, s, a)
		kill(t, s)
	}
	s.Advance(time.Hour)
	pruneAll(t, s, time.Minute)
	left := func() []string {
		return slices.DeleteFunc(server.Client().Keys(t.Context(), "*").Val(), func(k string) bool {
			return strings.HasPrefix(k, "{anvil}:key:") // Redis removes them by itself
		})
	}
	want := []string{"{anvil}:counts", "{anvil}:meta"}
	got := left()
	slices.Sort(got)
	// The newest claims stay until the next one.
	got = slices.DeleteFunc(got, func(k string) bool { return k == "{anvil}:claims" || k == "{anvil}:claimed" })
	if !slices.Equal(got, want) {
		t.Fatalf("left are %q, want %q", got, want)
	}
}
