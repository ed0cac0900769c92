package anvil

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// What the Caddyfile refuses is refused in JSON too; the messages of the Caddyfile are in testdata/adapt.
func TestSourceJSONRefused(t *testing.T) {
	const github = `"verify":[{"provider":"github","secrets":["{env.S}"]}]`
	manyDelays := strings.TrimSuffix(strings.Repeat(`"1s",`, 101), ",")
	tests := []struct{ name, json, want string }{
		{"no name", `{` + github + `}`, "the source needs a name"},
		{"bad name", `{"source":"a/b",` + github + `}`, "'a/b' is not a source name"},
		{"no verify", `{"source":"a","queue":"slow"}`, "source 'a': verify is missing"},
		{"empty verify", `{"source":"a","verify":[]}`, "source 'a': verify is missing"},
		{"verify without provider", `{"source":"a","verify":[{"secrets":["x"]}]}`, "verify needs a provider"},
		{"unknown provider", `{"source":"a","verify":[{"provider":"gitlub","secrets":["x"]}]}`, "did you mean 'github'?"},
		{"no secrets", `{"source":"a","verify":[{"provider":"github","secrets":[]}]}`, "verify github needs a secret"},
		{"empty secret", `{"source":"a","verify":[{"provider":"github","secrets":[""]}]}`, "secret 1 of verify github is empty"},
		{"none with secret", `{"source":"a","verify":[{"provider":"none","secrets":["x"]}]}`, "verify none takes no secret"},
		{"none before others", `{"source":"a","verify":[{"provider":"none"},{"provider":"github","secrets":["x"]}]}`, "must be the only verify"},
		{"options of a preset", `{"source":"a","verify":[{"provider":"github","secrets":["x"],"options":{"prefix":""}}]}`, "prefix"},
		{"bad algorithm", `{"source":"a","verify":[{"provider":"hmac","secrets":["x"],"options":{"algorithm":"crc32"}}]}`, `"crc32"`},
		{"bad dedupe key", `{"source":"a",` + github + `,"dedupe":{"key":"sig"}}`, "unrecognized dedupe key 'sig'"},
		{"dedupe fields without key", `{"source":"a",` + github + `,"dedupe":{"fields":["/id"]}}`, "dedupe has fields but no key"},
		{"empty dedupe fields", `{"source":"a",` + github + `,"dedupe":{"key":"json","fields":[]}}`, "dedupe json"},
		{"negative ttl", `{"source":"a",` + github + `,"dedupe":{"ttl":"-1s"}}`, "ttl must be greater than zero"},
		{"dedupe off with ttl", `{"source":"a",` + github + `,"dedupe":{"key":"off","ttl":"1h"}}`, "takes no ttl"},
		{"signature key of unverified", `{"source":"a","verify":[{"provider":"none"}],"dedupe":{"key":"signature"}}`, "use dedupe body"},
		{"fixed tenant", `{"source":"a",` + github + `,"tenant":"acme"}`, "tenant 'acme' is not a placeholder"},
		{"tenant of braces turned round", `{"source":"a",` + github + `,"tenant":"}{"}`, "is not a placeholder"},
		{"bad queue", `{"source":"a",` + github + `,"queue":"a.dead"}`, "'a.dead' is not a queue name"},
		{"negative max_body", `{"source":"a",` + github + `,"max_body":-1}`, "max_body must be greater than zero"},
		{"max_body over the bound", `{"source":"a",` + github + `,"max_body":536870913,"max_in_flight_bytes":1073741824}`, "max_body must be at most 512 MiB"},
		{"max_body over the budget", `{"source":"a",` + github + `,"max_body":268435457}`, "max_in_flight leaves 256 MiB"},
		{"negative max_in_flight", `{"source":"a",` + github + `,"max_in_flight":-1}`, "max_in_flight must be greater than zero"},
		{"negative budget", `{"source":"a",` + github + `,"max_in_flight_bytes":-1}`, "max_in_flight bytes must be greater than zero"},
		{"negative read_timeout", `{"source":"a",` + github + `,"read_timeout":"-1s"}`, "read_timeout must be greater than zero"},
		{"long read_timeout", `{"source":"a",` + github + `,"read_timeout":"61m"}`, "read_timeout must be at most 1h0m0s"},
		{"rate limit without scope", `{"source":"a",` + github + `,"rate_limit":[{"events":1,"window":"1s"}]}`, "unrecognized rate_limit scope ''"},
		{"rate limit without events", `{"source":"a",` + github + `,"rate_limit":[{"scope":"ip","window":"1s"}]}`, "rate_limit events must be greater than zero"},
		{"rate limit without window", `{"source":"a",` + github + `,"rate_limit":[{"scope":"ip","events":1}]}`, "rate_limit window must be greater than zero"},
		{"rate limit scope twice", `{"source":"a",` + github + `,"rate_limit":[{"scope":"ip","events":1,"window":"1s"},{"scope":"ip","events":2,"window":"1s"}]}`, "rate_limit ip already specified"},
		{"answer that is no success", `{"source":"a",` + github + `,"respond":{"status":199}}`, "from 200 to 299, not 199"},
		{"body where HTTP allows none", `{"source":"a",` + github + `,"respond":{"status":205,"body":"x"}}`, "respond 205 has no body"},
		{"endpoint without upstream", `{"source":"a",` + github + `,"endpoints":[{"name":"b"}]}`, "endpoint 'b': the upstream is missing"},
		{"endpoint with a bad name", `{"source":"a",` + github + `,"endpoints":[{"name":"B","upstream":":1"}]}`, "'B' is not an endpoint name"},
		{"bad upstream", `{"source":"a",` + github + `,"endpoints":[{"upstream":"file:///etc/passwd"}]}`, "endpoint 'default'"},
		{"placeholder in upstream", `{"source":"a",` + github + `,"endpoints":[{"upstream":"http://{env.HOST}"}]}`, "the upstream holds a placeholder"},
		{"unnamed endpoint twice", `{"source":"a",` + github + `,"endpoints":[{"upstream":":1"},{"name":"default","upstream":":2"}]}`, "endpoint 'default' already specified"},
		{"negative concurrency", `{"source":"a",` + github + `,"endpoints":[{"upstream":":1","concurrency":-1}]}`, "concurrency must be greater than zero"},
		{"negative timeout", `{"source":"a",` + github + `,"endpoints":[{"upstream":":1","timeout":"-1s"}]}`, "timeout must be greater than zero"},
		{"retry without delays", retryJSON(github, `{}`), "retry needs delays"},
		{"retry with an empty list", retryJSON(github, `{"schedule":"fixed","delays":[]}`), "retry needs delays"},
		{"retry with too many delays", retryJSON(github, `{"delays":[`+manyDelays+`]}`), "retry takes at most 100 delays, not 101"},
		{"retry with a zero delay", retryJSON(github, `{"delays":[0]}`), "retry delay must be greater than zero"},
		{"retry with a long delay", retryJSON(github, `{"delays":["721h"]}`), "retry delay must be at most 720h0m0s"},
		{"retry with an unknown schedule", retryJSON(github, `{"schedule":"linear"}`), "unrecognized retry schedule 'linear'"},
		{"patient with delays", retryJSON(github, `{"schedule":"patient","delays":["1s"]}`), "retry patient takes no delays"},
		{"fixed with a base", retryJSON(github, `{"delays":["1s"],"base":"1s"}`), "belong to exponential"},
		{"exponential with delays", retryJSON(github, `{"schedule":"exponential","delays":["1s"]}`), "retry exponential takes no delays"},
		{"cap below base", retryJSON(github, `{"schedule":"exponential","base":"2s","cap":"1s"}`), "cap 1s is below base 2s"},
		{"cap below the default base", retryJSON(github, `{"schedule":"exponential","cap":"1ms"}`), "cap 1ms is below base 1s"},
		{"negative base", retryJSON(github, `{"schedule":"exponential","base":"-1s"}`), "base must be greater than zero"},
		{"too many attempts", retryJSON(github, `{"schedule":"exponential","attempts":101}`), "attempts must be at most 100"},
		{"negative attempts", retryJSON(github, `{"schedule":"exponential","attempts":-1}`), "attempts must be greater than zero"},
		{"jitter above 1", retryJSON(github, `{"schedule":"exponential","jitter":1.5}`), "jitter must be from 0 to 1"},
		{"negative jitter", retryJSON(github, `{"schedule":"exponential","jitter":-0.1}`), "jitter must be from 0 to 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var cfg SourceConfig
			if err := caddy.StrictUnmarshalJSON([]byte(tt.json), &cfg); err != nil {
				t.Fatal(err)
			}
			wantError(t, cfg.validate(), tt.want)
		})
	}
}

func retryJSON(verify, retry string) string {
	return fmt.Sprintf(`{"source":"a",%s,"endpoints":[{"upstream":":1","retry":%s}]}`, verify, retry)
}

func TestSourceJSONAccepted(t *testing.T) {
	const github = `"verify":[{"provider":"github","secrets":["{env.S}"]}]`
	tests := []struct{ name, json string }{
		{"a reference", `{"source":"a"}`},
		{"the settings of a Caddyfile written out", `{"source":"a",` + github + `,"dedupe":{"key":"json","fields":["/id"],"ttl":"168h"},
			"queue":"webhooks","endpoints":[{"name":"default","upstream":"http://app:3000"}],"max_body":262144,"respond":{"status":202}}`},
		{"zero for each default", `{"source":"a",` + github + `,"max_body":0,"max_in_flight":0,"read_timeout":0,"respond":{"status":0}}`},
		{"no endpoints", `{"source":"a",` + github + `,"endpoints":[]}`},
		{"an unnamed endpoint beside a named one", `{"source":"a",` + github + `,"endpoints":[{"upstream":":1"},{"name":"b","upstream":":1"}]}`},
		{"delays without the word fixed", retryJSON(github, `{"delays":["1s","720h"]}`)},
		{"the bounds of exponential", retryJSON(github, `{"schedule":"exponential","base":"720h","cap":"720h","attempts":100,"jitter":1}`)},
		{"no jitter", retryJSON(github, `{"schedule":"exponential","jitter":0}`)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var cfg SourceConfig
			if err := caddy.StrictUnmarshalJSON([]byte(tt.json), &cfg); err != nil {
				t.Fatal(err)
			}
			if err := cfg.validate(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAppJSONRefused(t *testing.T) {
	tests := []struct{ name, json, want string }{
		{"negative drain_timeout", `{"drain_timeout":"-1s"}`, "drain_timeout must be greater than zero"},
		{"negative orphan_after", `{"orphan_after":"-1s"}`, "orphan_after must be greater than zero"},
		{"bad queue name", `{"queues":{"A":{}}}`, "'A' is not a queue name; did you mean 'a'?"},
		{"unnamed queue", `{"queues":{"":{}}}`, "the queue needs a name"},
		{"negative concurrency", `{"queues":{"a":{"concurrency":-1}}}`, "queue 'a': concurrency must be greater than zero"},
		{"too much concurrency", `{"queues":{"a":{"concurrency":10001}}}`, "concurrency must be at most 10000, not 10001"},
		{"long timeout", `{"queues":{"a":{"timeout":"2h"}}}`, "timeout must be at most 1h0m0s"},
		{"negative max_pending", `{"queues":{"a":{"max_pending":-1}}}`, "max_pending must be greater than zero"},
		{"bad retry", `{"queues":{"a":{"retry":{"schedule":"exponential","jitter":2}}}}`, "queue 'a': jitter must be from 0 to 1"},
		{"retention of unfinished jobs", `{"queues":{"a":{"retain":{"running":"1h"}}}}`, "'running' is not a state in which jobs end"},
		{"no retention", `{"queues":{"a":{"retain":{"dead":0}}}}`, "retain dead must be greater than zero"},
		{"source without settings", `{"sources":[{"source":"a"}]}`, "source 'a' has no settings"},
		{"source that is invalid", `{"sources":[{"source":"a","queue":"b"}]}`, "source 'a': verify is missing"},
		{"source twice", `{"sources":[{"source":"a","verify":[{"provider":"none"}]},{"source":"a","verify":[{"provider":"none"}]}]}`, "source 'a' already specified"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var cfg AppConfig
			if err := caddy.StrictUnmarshalJSON([]byte(tt.json), &cfg); err != nil {
				t.Fatal(err)
			}
			wantError(t, cfg.validate(), tt.want)
		})
	}
}

func TestHealthJSONRefused(t *testing.T) {
	cfg := HealthConfig{Kind: "alive"}
	wantError(t, cfg.validate(), "unrecognized kind of health check 'alive'; did you mean 'live'?")
}

func TestErrorsNeverShowSecrets(t *testing.T) {
	const secret = "correct-horse-battery-staple"
	tests := []struct {
		name string
		cfg  VerifyConfig
	}{
		{"unknown provider", VerifyConfig{Provider: "nobody", Secrets: []string{secret}}},
		{"none with secret", VerifyConfig{Provider: "none", Secrets: []string{secret}}},
		{"empty second secret", VerifyConfig{Provider: "github", Secrets: []string{secret, ""}}},
		{"placeholder of the request", VerifyConfig{Provider: "github", Secrets: []string{secret + "{http.request.host}"}}},
		{"bad option", VerifyConfig{Provider: "hmac", Secrets: []string{secret}, Options: map[string]string{"encoding": "x"}}},
		{"bad secret option", VerifyConfig{Provider: "vercel", Secrets: []string{"x"}, Options: map[string]string{"verify_header": secret + "\n"}}},
		{"secret option of another provider", VerifyConfig{Provider: "github", Secrets: []string{"x"}, Options: map[string]string{"verify_token": secret}}},
		{"placeholder of the request in an option", VerifyConfig{Provider: "meta", Secrets: []string{"x"}, Options: map[string]string{"verify_token": secret + "{http.x}"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.cfg.validate()
			if err == nil {
				t.Fatal("no error")
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error shows the secret: %v", err)
			}
		})
	}
}

func TestMaxBody(t *testing.T) {
	github := VerifyConfig{Provider: "github", Secrets: []string{"x"}}
	hmac := VerifyConfig{Provider: "hmac", Secrets: []string{"x"}}
	tests := []struct {
		name string
		cfg  SourceConfig
		want int64
	}{
		{"256 KiB by default", SourceConfig{Verify: []VerifyConfig{hmac}}, 256 << 10},
		{"the provider's own maximum", SourceConfig{Verify: []VerifyConfig{github}}, 25 << 20},
		{"the largest of several", SourceConfig{Verify: []VerifyConfig{hmac, github}}, 25 << 20},
		{"the configured one before the provider's", SourceConfig{Verify: []VerifyConfig{github}, MaxBody: 1 << 10}, 1 << 10},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.cfg.maxBody(); got != tt.want {
				t.Errorf("limit is %d bytes, want %d", got, tt.want)
			}
		})
	}
}
