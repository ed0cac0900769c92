package redis_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-anvil/anvil/internal/redistest"
	"github.com/caddy-anvil/anvil/internal/store/redis"
)

// Newer servers know since when they have each command and each option.
func TestNothingThatIsSentIsNewerThanTheOldestServer(t *testing.T) {
	server := redistest.Start(t)
	redistest.StartReplica(t, server)
	if server.Client().Do(t.Context(), "COMMAND", "DOCS", "PING").Err() != nil {
		t.Skip("this server is from before Redis 7 and documents no versions: that the other tests pass with it says more")
	}
	lines := monitor(t, server.Addr())
	everything(t, on(t, server, func(o *redis.Options) { o.Replicas = 1 }))
	must(t, server.Client().Set(t.Context(), "the end", "1", 0).Err())

	sent := map[string]map[string]bool{} // the words that have come with each command
	for {
		words, _ := parseMonitor(t, <-lines)
		if words[0] == "set" && words[1] == "the end" {
			break
		}
		if sent[words[0]] == nil {
			sent[words[0]] = map[string]bool{}
		}
		for _, w := range words {
			sent[words[0]][strings.ToUpper(w)] = true
		}
	}
	if !sent["wait"]["WAIT"] || !sent["set"]["NX"] || !sent["zrangebyscore"]["LIMIT"] {
		t.Fatalf("sent was %v: the test has looked at nothing", sent)
	}
	for _, command := range calledByScripts(t) { // also where this run has not come by
		if sent[command] == nil {
			sent[command] = map[string]bool{strings.ToUpper(command): true}
		}
	}
	for command, words := range sent {
		docs, _ := server.Do("COMMAND", "DOCS", command).(map[any]any)
		doc, _ := docs[command].(map[any]any)
		since := map[string]string{strings.ToUpper(command): fmt.Sprint(doc["since"])}
		optionsSince(since, fmt.Sprint(doc["since"]), doc["arguments"])
		for word, version := range since {
			var major, minor int
			if n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor); n != 2 {
				t.Errorf("%s of %s is there since %q: is this a version?", word, command, version)
			}
			if words[word] && (major > 6 || major == 6 && minor > 2) {
				t.Errorf("%s of %s is sent, which is there since %s only", word, command, version)
			}
		}
	}
}

func calledByScripts(t *testing.T) (commands []string) {
	t.Helper()
	files, err := filepath.Glob("lua/*.lua")
	must(t, err)
	for _, file := range files {
		source, err := os.ReadFile(file)
		must(t, err)
		for _, call := range calls.FindAllSubmatch(source, -1) {
			commands = append(commands, strings.ToLower(string(call[1])))
		}
	}
	if len(commands) < 50 {
		t.Fatalf("%d calls in scripts: the test has looked at nothing", len(commands))
	}
	return commands
}

var calls = regexp.MustCompile(`redis\.p?call\('(\w+)'`)

// optionsSince adds since when there are the options among arguments, which are nested and younger than what is around them.
func optionsSince(since map[string]string, around string, arguments any) {
	list, _ := arguments.([]any)
	for _, a := range list {
		argument, _ := a.(map[any]any)
		version := around
		if v, ok := argument["since"].(string); ok {
			version = v
		}
		if token, ok := argument["token"].(string); ok {
			since[token] = version
		}
		optionsSince(since, version, argument["arguments"])
	}
}
