package e2e

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/redistest"
)

// monitor returns what clients ask a Redis from now on, by client, for as long as the time given. INFO commandstats would
// count what scripts call, too; MONITOR marks those calls, and they are left out.
func monitor(t *testing.T, r *redistest.Server, during time.Duration) map[string][]string {
	t.Helper()
	conn, err := net.DialTimeout("tcp", r.Addr(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "MONITOR\r\n"); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(conn)
	if line, err := lines.ReadString('\n'); err != nil || line != "+OK\r\n" {
		t.Fatalf("MONITOR answered %q, %v", line, err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(during))
	asked := map[string][]string{}
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return asked
		}
		// +1700000000.123456 [0 127.0.0.1:50000] "evalsha" "…", where a script's own call has "lua" for an address.
		_, rest, _ := strings.Cut(line, "[")
		who, command, _ := strings.Cut(rest, "] ")
		if !strings.HasSuffix(who, " lua") {
			name, _, _ := strings.Cut(command, " ")
			asked[who] = append(asked[who], strings.Trim(name, "\"\r\n"))
		}
	}
}

func TestIdleInstancesAskRedisLessThanTwiceASecond(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	const n = 3
	f := startFleet(t, n, "", numberedSite(up, ""))
	for i, url := range f.urls() {
		accepted(t, url, hook(i))
	}
	f.members[0].settled(time.Minute)
	const during = 10 * time.Second
	total, names := 0, map[string]int{}
	for _, commands := range monitor(t, f.redis, during) {
		total += len(commands)
		for _, name := range commands {
			names[name]++
		}
	}
	t.Logf("%d instances asked %d times in %s: %v", n, total, during, names)
	if total >= 2*n*int(during.Seconds()) {
		t.Errorf("%d instances asked %d times in %s, want less than twice a second each: %v", n, total, during, names)
	}
	// Three of them look once a second each. A machine that stands still makes it less.
	if total < n {
		t.Errorf("%d commands in %s: too few to be all that %d instances ask", total, during, n)
	}
}

func TestARedisThatMayLoseWebhooksIsWarnedOf(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, nil)
	for _, c := range []struct {
		name string
		args []string
		want []string // a part of each warning
	}{
		{"durable", append(durable[:len(durable):len(durable)], "--maxmemory", "100mb", "--maxmemory-policy", "noeviction"), nil},
		{"evicting", append(durable[:len(durable):len(durable)], "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"), []string{"maxmemory-policy allkeys-lru"}},
		{"forgetful", []string{"--appendonly", "no"}, []string{"appendonly no"}},
		{"both", []string{"--maxmemory", "100mb", "--maxmemory-policy", "volatile-ttl"}, []string{"maxmemory-policy volatile-ttl", "appendonly no"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			i, _ := startOnRedis(t, simpleSite(up), c.args...)
			i.logged("Redis answers") // one that is slow at the start is looked at later
			var stats struct {
				Warnings []string `json:"warnings"`
			}
			i.getJSON("/anvil/stats", &stats)
			if len(stats.Warnings) != len(c.want) {
				t.Errorf("stats warn of %q, want %q", stats.Warnings, c.want)
			}
			if n, _ := i.metric("caddy_anvil_store_warnings"); n != float64(len(c.want)) {
				t.Errorf("the metric counts %v warnings, want %d", n, len(c.want))
			}
			for _, part := range c.want {
				if !strings.Contains(strings.Join(stats.Warnings, "\n"), part) {
					t.Errorf("stats warn of %q, want %q", stats.Warnings, part)
				}
				i.logged(`"warn"`, part)
			}
			if len(c.want) == 0 {
				for _, part := range []string{"maxmemory-policy", "appendonly"} {
					if line, found := i.wholeLog().find(part); found {
						t.Errorf("the log warns: %s", line)
					}
				}
			}
		})
	}
}
