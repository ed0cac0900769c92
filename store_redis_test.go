package anvil

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-anvil/anvil/internal/store/redis"
)

// provisionRedis does with a store's JSON what Caddy does, without warnings.
func provisionRedis(t *testing.T, config string) (*RedisStore, error) {
	t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	t.Cleanup(cancel)
	s := new(RedisStore)
	if err := caddy.StrictUnmarshalJSON([]byte(config), s); err != nil {
		t.Fatal(err)
	}
	return s, s.prepare(ctx)
}

func mustProvisionRedis(t *testing.T, config string) *RedisStore {
	t.Helper()
	s, err := provisionRedis(t, config)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRedisOptions(t *testing.T) {
	t.Setenv("ANVIL_SECRET", "{s}ecret/@")
	t.Setenv("ANVIL_NAME", "name")
	t.Setenv("ANVIL_HOST", "node.internal")
	tests := []struct {
		name, json string
		want       redis.Options
	}{
		{
			name: "every option of a server",
			json: `{"url":"redis://localhost/0","username":"{env.ANVIL_NAME}","password":"{env.ANVIL_SECRET}","prefix":"shop","pool_size":50,"min_idle":5,
				"pool_timeout":"3s","max_idle_time":"1d","dial_timeout":"4s","accept_timeout":"1.5s","replicas":2}`,
			want: redis.Options{
				Addr: "localhost:6379", Username: "name", Password: "{s}ecret/@", Prefix: "shop", PoolSize: 50, MinIdle: 5,
				PoolTimeout: 3 * time.Second, MaxIdleTime: 24 * time.Hour, DialTimeout: 4 * time.Second, AcceptTimeout: 1500 * time.Millisecond, Replicas: 2,
			},
		},
		{
			name: "user of the url and password beside it",
			json: `{"url":"redis://anvil@localhost","password":"{env.ANVIL_SECRET}","db":3}`,
			want: redis.Options{Addr: "localhost:6379", Username: "anvil", Password: "{s}ecret/@", DB: 3, Prefix: "anvil", AcceptTimeout: 2 * time.Second},
		},
		{
			name: "sentinel",
			json: `{"sentinel_master":"{env.ANVIL_NAME}","sentinels":["10.0.0.1","[fd00::1]:26380","{env.ANVIL_HOST}"],"sentinel_username":"s","sentinel_password":"{env.ANVIL_SECRET}","db":2}`,
			want: redis.Options{
				Master: "name", Sentinels: []string{"10.0.0.1:26379", "[fd00::1]:26380", "node.internal:26379"},
				SentinelUsername: "s", SentinelPassword: "{s}ecret/@", DB: 2, Prefix: "anvil", AcceptTimeout: 2 * time.Second,
			},
		},
		{
			name: "cluster",
			json: `{"cluster":["10.0.0.1","{env.ANVIL_HOST}:7000"],"db":0,"password":"a literal one"}`,
			want: redis.Options{Cluster: []string{"10.0.0.1:6379", "node.internal:7000"}, Password: "a literal one", Prefix: "anvil", AcceptTimeout: 2 * time.Second},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, *mustProvisionRedis(t, tt.json).options); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRedisSecretsStayOutOfSight(t *testing.T) {
	const secret = "correct-horse-battery-staple"
	t.Setenv("ANVIL_SECRET", secret)
	s := mustProvisionRedis(t, `{"sentinel_master":"m","sentinels":["a"],"sentinel_password":"{env.ANVIL_SECRET}","password":"{env.ANVIL_SECRET}"}`)
	u := mustProvisionRedis(t, jsonOfURL("redis://:{env.ANVIL_SECRET}@localhost"))
	if s.options.Password != secret || s.options.SentinelPassword != secret || u.options.Password != secret {
		t.Fatal("the placeholders were not replaced")
	}
	for _, store := range []*RedisStore{s, u} {
		config, err := json.Marshal(store)
		if err != nil {
			t.Fatal(err)
		}
		for what, text := range map[string]string{
			"JSON": string(config), "print": fmt.Sprintf("%v %+v %#v", store, store, store), "pool key": store.poolKey(),
		} {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows the secret: %s", what, text)
			}
		}
	}
}

func TestWrittenRedisSecretsWarn(t *testing.T) {
	tests := []struct {
		name, json string
		want       []string
	}{
		{"in the url", `{"url":"redis://u:literal@localhost"}`, []string{"url"}},
		{"passwords", `{"sentinel_master":"m","sentinels":["a"],"sentinel_password":"literal","password":"literal"}`, []string{"password", "sentinel_password"}},
		{"placeholders", `{"url":"redis://u:{env.X}@localhost"}`, nil},
		{"placeholder for a password", `{"cluster":["a"],"password":"{env.X}"}`, nil},
		{"placeholder for the url", `{"url":"{env.X}"}`, nil},
		{"none", `{"url":"redis://localhost"}`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var s RedisStore
			if err := caddy.StrictUnmarshalJSON([]byte(tt.json), &s); err != nil {
				t.Fatal(err)
			}
			core, logs := observer.New(zap.WarnLevel)
			s.warn(zap.New(core))
			var words []string
			for _, entry := range logs.All() {
				if !strings.Contains(entry.Message, "a secret is written out in the configuration") || strings.Contains(fmt.Sprint(entry), "literal") {
					t.Errorf("logged %+v", entry)
				}
				words = append(words, fmt.Sprint(entry.ContextMap()["word"]))
			}
			if diff := cmp.Diff(tt.want, words); diff != "" {
				t.Errorf("warned about (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRedisPoolKeys(t *testing.T) {
	t.Setenv("ANVIL_SECRET", "one")
	key := func(config string) string {
		t.Helper()
		k := mustProvisionRedis(t, config).poolKey()
		if !strings.HasPrefix(k, "redis:") {
			t.Errorf("key %q of %s", k, config)
		}
		return k
	}
	base := key(`{"url":"redis://localhost","password":"{env.ANVIL_SECRET}"}`)
	for name, config := range map[string]string{
		"again":                   `{"url":"redis://localhost","password":"{env.ANVIL_SECRET}"}`,
		"written out":             `{"url":"redis://:one@localhost:6379/0"}`,
		"defaults written out":    `{"url":"redis://localhost","password":"one","prefix":"anvil","db":0,"accept_timeout":"2s"}`,
		"password by placeholder": `{"url":"redis://:{env.ANVIL_SECRET}@localhost"}`,
	} {
		if key(config) != base {
			t.Errorf("%s: the key differs", name)
		}
	}
	seen := map[string]string{base: "base"}
	for _, config := range []string{
		`{"url":"redis://localhost"}`,
		`{"url":"redis://localhost","password":"two"}`,
		`{"url":"redis://localhost","password":"one","username":"u"}`,
		`{"url":"redis://localhost:6380","password":"one"}`,
		`{"url":"rediss://localhost","password":"one"}`,
		`{"url":"rediss://localhost","password":"one","tls":{"server_name":"redis"}}`,
		`{"url":"rediss://localhost","password":"one","tls":{"insecure_skip_verify":true}}`,
		`{"url":"redis://localhost/1","password":"one"}`,
		`{"url":"redis://localhost","password":"one","prefix":"b"}`,
		`{"url":"redis://localhost","password":"one","pool_size":5}`,
		`{"url":"redis://localhost","password":"one","min_idle":5}`,
		`{"url":"redis://localhost","password":"one","pool_timeout":"5s"}`,
		`{"url":"redis://localhost","password":"one","max_idle_time":"5s"}`,
		`{"url":"redis://localhost","password":"one","dial_timeout":"5s"}`,
		`{"url":"redis://localhost","password":"one","accept_timeout":"5s"}`,
		`{"url":"redis://localhost","password":"one","replicas":1}`,
		`{"cluster":["localhost"],"password":"one"}`,
		`{"cluster":["localhost","b"],"password":"one"}`,
		`{"sentinel_master":"m","sentinels":["localhost"],"password":"one"}`,
		`{"sentinel_master":"m","sentinels":["localhost"],"password":"one","sentinel_password":"one"}`,
	} {
		k := key(config)
		if other, ok := seen[k]; ok {
			t.Errorf("%s has the key of %s", config, other)
		}
		seen[k] = config
	}
	t.Setenv("ANVIL_SECRET", "two")
	if key(`{"url":"redis://localhost","password":"{env.ANVIL_SECRET}"}`) == base {
		t.Error("a changed password in the environment leaves the key as it was")
	}
}

func TestValidatingNeedsNoRedis(t *testing.T) {
	config, err := adapt(t, "{\n\tadmin off\n\tanvil {\n\t\tstore redis redis://127.0.0.1:1\n\t}\n}\n")
	if err != nil {
		t.Fatal(err)
	}
	var cfg caddy.Config
	if err := caddy.StrictUnmarshalJSON(config, &cfg); err != nil {
		t.Fatal(err)
	}
	if err := caddy.Validate(&cfg); err != nil {
		t.Error(err)
	}
}
