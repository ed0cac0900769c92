package anvil

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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

func jsonOfURL(url string) string {
	data, _ := json.Marshal(map[string]string{"url": url})
	return string(data)
}

func TestRedisURL(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("from/a@file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ANVIL_USER", "a:user")
	t.Setenv("ANVIL_EVIL", "x@evil.example:1/5?db=3#%41{env.HOME}[::1]")
	t.Setenv("ANVIL_HOST", "redis.internal")
	t.Setenv("ANVIL_ADDRESS", "redis.internal:6380")
	t.Setenv("ANVIL_DB", "7")
	t.Setenv("ANVIL_URL", "rediss://user:p%2Fw@redis.internal:6380/4")
	t.Setenv("ANVIL_SOCKET", "redis/redis.sock")
	tests := []struct {
		name, url string
		want      redis.Options
		tls       bool
	}{
		{name: "host", url: "redis://localhost", want: redis.Options{Addr: "localhost:6379"}},
		{name: "port", url: "redis://localhost:6380", want: redis.Options{Addr: "localhost:6380"}},
		{name: "database", url: "redis://localhost/3", want: redis.Options{Addr: "localhost:6379", DB: 3}},
		{name: "a slash and no database", url: "redis://localhost/", want: redis.Options{Addr: "localhost:6379"}},
		{name: "scheme in capitals", url: "REDISS://localhost", want: redis.Options{Addr: "localhost:6379"}, tls: true},
		{name: "IPv6", url: "redis://[fd00::1]", want: redis.Options{Addr: "[fd00::1]:6379"}},
		{name: "IPv6 and port", url: "rediss://u:p@[::1]:6380/1", want: redis.Options{Addr: "[::1]:6380", Username: "u", Password: "p", DB: 1}, tls: true},
		{name: "host of a container", url: "redis://my_redis-1", want: redis.Options{Addr: "my_redis-1:6379"}},
		{name: "password alone", url: "redis://:p@localhost", want: redis.Options{Addr: "localhost:6379", Password: "p"}},
		{name: "password with colon and at sign", url: "redis://u:p:a@b@localhost", want: redis.Options{Addr: "localhost:6379", Username: "u", Password: "p:a@b"}},
		{name: "written password is decoded", url: "redis://u%40x:p%2f%3a%25%40+%7B@localhost", want: redis.Options{Addr: "localhost:6379", Username: "u@x", Password: "p/:%@+{"}},
		{name: "socket", url: "unix:///run/redis/redis.sock", want: redis.Options{Addr: "/run/redis/redis.sock"}},
		{name: "socket with login", url: "unix://u:p@/run/a@b.sock", want: redis.Options{Addr: "/run/a@b.sock", Username: "u", Password: "p"}},
		{name: "socket by placeholder", url: "unix:///run/{env.ANVIL_SOCKET}", want: redis.Options{Addr: "/run/redis/redis.sock"}},
		{name: "replaced password is taken as it is", url: "redis://:{env.ANVIL_EVIL}@localhost:6380/1", want: redis.Options{Addr: "localhost:6380", DB: 1, Password: "x@evil.example:1/5?db=3#%41{env.HOME}[::1]"}},
		{name: "replaced password on a socket", url: "unix://:{env.ANVIL_EVIL}@/run/redis.sock", want: redis.Options{Addr: "/run/redis.sock", Password: "x@evil.example:1/5?db=3#%41{env.HOME}[::1]"}},
		{name: "replaced user is taken as it is", url: "redis://{env.ANVIL_USER}:p@localhost", want: redis.Options{Addr: "localhost:6379", Username: "a:user", Password: "p"}},
		{name: "password of file and text", url: fmt.Sprintf("redis://:%%2F{file.%s}{env.ANVIL_DB}@localhost", file), want: redis.Options{Addr: "localhost:6379", Password: "/from/a@file7"}},
		{name: "host by placeholder", url: "redis://:p@{env.ANVIL_HOST}:6380/{env.ANVIL_DB}", want: redis.Options{Addr: "redis.internal:6380", DB: 7, Password: "p"}},
		{name: "address by placeholder", url: "redis://{env.ANVIL_ADDRESS}", want: redis.Options{Addr: "redis.internal:6380"}},
		{name: "all of it from one placeholder", url: "{env.ANVIL_URL}", want: redis.Options{Addr: "redis.internal:6380", DB: 4, Username: "user", Password: "p/w"}, tls: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := mustProvisionRedis(t, jsonOfURL(tt.url))
			tt.want.Prefix, tt.want.AcceptTimeout = "anvil", 2*time.Second
			if diff := cmp.Diff(tt.want, *s.options, cmpopts.IgnoreFields(redis.Options{}, "TLS")); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
			if got := s.options.TLS != nil; got != tt.tls {
				t.Errorf("TLS is %v, want %v", got, tt.tls)
			}
		})
	}
}

func TestRedisURLRefused(t *testing.T) {
	const canary = "canary"
	t.Setenv("ANVIL_HOST", "evil.example/canary@x")
	t.Setenv("ANVIL_PORT", "6379canary")
	t.Setenv("ANVIL_EMPTY", "")
	t.Setenv("ANVIL_URL_BRACES", "redis://:{canary}@localhost")
	t.Setenv("ANVIL_URL_SLASH", "redis://:1/canary@localhost")
	tests := []struct{ name, url, want string }{
		{"no scheme", "localhost:6379", "it must begin with redis://"},
		{"scheme of something else", "http://canary@localhost", "it must begin with redis://"},
		{"scheme by placeholder", "{env.ANVIL_HOST}://localhost", "it must begin with redis://"},
		{"no host", "redis://:canary@:6379", "the address is not host:port"},
		{"nothing", "redis://", "the address has no host"},
		{"port 0", "redis://localhost:0", "has a port that is not a number from 1 to 65535"},
		{"port too high", "redis://localhost:65536", "has a port that is not a number from 1 to 65535"},
		{"bare IPv6", "redis://fd00::1", "the address is not host:port, or [IPv6]:port"},
		{"IPv4 in brackets", "redis://[10.0.0.1]", "no IPv6 address in its brackets"},
		{"IPv6 with a zone", "redis://[fe80::1%25eth0]", "no IPv6 address in its brackets"},
		{"several hosts", "redis://a:1,b:2", "the address is not host:port"},
		{"escaped slash in host", "redis://a%2Fcanary", "the address is not host:port"},
		{"database that is a word", "redis://localhost/canary", "is not the number of a database"},
		{"database and more", "redis://localhost/1/canary", "is not the number of a database"},
		{"signed database", "redis://localhost/+1", "is not the number of a database"},
		{"query", "redis://localhost?password=canary", "nothing may come after '?'"},
		{"fragment", "redis://localhost#canary", "nothing may come after '?' or '#'"},
		{"slash in a written password", "redis://:hunter/canary@localhost", "if a password has a '/', write it %2F"},
		{"number and slash in a written password", "redis://user:12/canary@localhost", "if a password has a '/', write it %2F"},
		{"question mark in a written password", "redis://:canary?x@localhost", "percent-encode it"},
		{"percent in a written password", "redis://:100%zcanary@localhost", "write %25"},
		{"NUL in a written password", "redis://:canary%00@localhost", "write %25"},
		{"single brace", "redis://:can{ary@localhost", "a brace that is no placeholder's"},
		{"backslash", `redis://:canary\@localhost`, "a backslash"},
		{"line break", "redis://:canary\n@localhost", "a control character"},
		{"empty password", "redis://user:@localhost", "the user or password before '@' is empty"},
		{"empty user and password", "redis://@localhost", "the user or password before '@' is empty"},
		{"password without colon", "redis://canary@localhost", "with the colon"},
		{"relative socket", "unix://run/redis.sock", "unix:///run/redis/redis.sock"},
		{"socket without path", "unix:///", "unix:///run/redis/redis.sock"},
		{"unset variable", "redis://:{env.ANVIL_EMPTY}@localhost", "url {env.ANVIL_EMPTY} is empty"},
		{"missing file", "redis://:{file./no/such/file}@localhost", "url {file./no/such/file} is empty"},
		{"unknown placeholder", "redis://:{canary}@localhost", "holds an unknown placeholder"},
		{"host by placeholder that is more than a host", "redis://{env.ANVIL_HOST}", "the address is not host:port"},
		{"port by placeholder", "redis://localhost:{env.ANVIL_PORT}", "has a port that is not a number"},
		{"URL by placeholder with braces", "{env.ANVIL_URL_BRACES}", "the value of the placeholder holds a brace"},
		{"URL by placeholder with a slash", "{env.ANVIL_URL_SLASH}", "if a password has a '/', write it %2F"},
		{"URL by placeholder that is empty", "{env.ANVIL_EMPTY}", "url {env.ANVIL_EMPTY} is empty"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := provisionRedis(t, jsonOfURL(tt.url))
			wantError(t, err, tt.want)
			if strings.Contains(err.Error(), canary) {
				t.Errorf("the error shows the secret: %v", err)
			}
		})
	}
}

// What the Caddyfile refuses is refused in JSON too; the messages of the Caddyfile are in testdata/adapt.
func TestRedisJSONRefused(t *testing.T) {
	t.Setenv("ANVIL_URL", "redis://user:canary@localhost/1")
	t.Setenv("ANVIL_HOST", "canary/x")
	const server = `"url":"redis://localhost"`
	tests := []struct{ name, json, want string }{
		{"nothing", `{}`, "needs one of: a url as in redis://localhost:6379, sentinel, or cluster"},
		{"url and cluster", `{` + server + `,"cluster":["a"]}`, "takes only one of"},
		{"url and master", `{` + server + `,"sentinel_master":"m"}`, "takes only one of"},
		{"sentinels and cluster", `{"sentinel_master":"m","sentinels":["a"],"cluster":["a"]}`, "takes only one of"},
		{"sentinels without master", `{"sentinels":["a"]}`, "sentinel needs the master's name"},
		{"master without sentinels", `{"sentinel_master":"m"}`, "sentinel needs the address of a Sentinel"},
		{"bad sentinel", `{"sentinel_master":"m","sentinels":["a","redis://:canary@b"]}`, "sentinel address 2 is not host:port"},
		{"sentinel twice", `{"sentinel_master":"m","sentinels":["a","b","a:26379"]}`, "sentinel address 3 is there twice"},
		{"empty node", `{"cluster":[""]}`, "cluster address 1 has no host"},
		{"bad node by placeholder", `{"cluster":["a","{env.ANVIL_HOST}"]}`, "cluster address 2 is not host:port"},
		{"unset node", `{"cluster":["{env.ANVIL_NOT_SET}"]}`, "cluster address 1 {env.ANVIL_NOT_SET} is empty"},
		{"database of a cluster", `{"cluster":["a"],"db":1}`, "a cluster has only the database 0"},
		{"negative database", `{` + server + `,"db":-1}`, "db must not be negative"},
		{"database twice", `{"url":"redis://localhost/0","db":0}`, "the url and db both give the database"},
		{"user twice", `{"url":"redis://u:canary@localhost","username":"u"}`, "the url and username both give the user"},
		{"password twice", `{"url":"redis://:canary@localhost","password":"canary"}`, "the url and password both give the password"},
		{"password twice, once in a placeholder's url", `{"url":"{env.ANVIL_URL}","password":"canary"}`, "the url and password both give the password"},
		{"database twice, once in a placeholder's url", `{"url":"{env.ANVIL_URL}","db":0}`, "the url and db both give the database"},
		{"user without password", `{"url":"redis://localhost","username":"u"}`, "username needs a password"},
		{"user of a cluster without password", `{"cluster":["a"],"username":"u"}`, "username needs a password"},
		{"sentinel's user without password", `{"sentinel_master":"m","sentinels":["a"],"sentinel_username":"u"}`, "sentinel_username needs sentinel_password"},
		{"sentinel's password without sentinel", `{` + server + `,"sentinel_password":"canary"}`, "are for sentinel"},
		{"unset password", `{` + server + `,"password":"{env.ANVIL_NOT_SET}"}`, "password {env.ANVIL_NOT_SET} is empty"},
		{"password with unknown placeholder", `{` + server + `,"password":"canary{canary}"}`, "password is empty, or holds an unknown placeholder"},
		{"unset sentinel password", `{"sentinel_master":"m","sentinels":["a"],"sentinel_password":"{file./no/such/file}"}`, "sentinel_password {file./no/such/file} is empty"},
		{"prefix with a brace", `{` + server + `,"prefix":"{a}"}`, "prefix '{a}' is not 1 to 64"},
		{"long prefix", `{` + server + `,"prefix":"` + strings.Repeat("a", 65) + `"}`, "is not 1 to 64"},
		{"negative pool_size", `{` + server + `,"pool_size":-1}`, "pool_size must be greater than zero"},
		{"pool_size too high", `{` + server + `,"pool_size":10001}`, "pool_size must be at most 10000"},
		{"negative min_idle", `{` + server + `,"min_idle":-1}`, "min_idle must be greater than zero"},
		{"min_idle over pool_size", `{` + server + `,"pool_size":1,"min_idle":2}`, "min_idle 2 is above pool_size 1"},
		{"negative pool_timeout", `{` + server + `,"pool_timeout":-1}`, "pool_timeout must be greater than zero"},
		{"long pool_timeout", `{` + server + `,"pool_timeout":"61m"}`, "pool_timeout must be at most 1h0m0s"},
		{"negative max_idle_time", `{` + server + `,"max_idle_time":-1}`, "max_idle_time must be greater than zero"},
		{"negative dial_timeout", `{` + server + `,"dial_timeout":-1}`, "dial_timeout must be greater than zero"},
		{"long accept_timeout", `{` + server + `,"accept_timeout":"61m"}`, "accept_timeout must be at most 1h0m0s"},
		{"negative replicas", `{` + server + `,"replicas":-1}`, "replicas must be greater than zero"},
		{"TLS on a socket", `{"url":"unix:///run/redis.sock","tls":{}}`, "a unix socket has no TLS"},
		{"certificate without key", `{` + server + `,"tls":{"client_certificate_file":"a"}}`, "go together"},
		{"key without certificate", `{` + server + `,"tls":{"client_certificate_key_file":"a"}}`, "go together"},
		{"certificate that is missing", `{` + server + `,"tls":{"client_certificate_file":"/no/such/file","client_certificate_key_file":"/no/such/file"}}`, "setting up tls: loading client certificate: open /no/such/file"},
		{"trust pool that is missing", `{` + server + `,"tls":{"ca":{"provider":"file","pem_files":["/no/such/file"]}}}`, "/no/such/file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := provisionRedis(t, tt.json)
			wantError(t, err, tt.want)
			if strings.Contains(err.Error(), "canary") {
				t.Errorf("the error shows the secret: %v", err)
			}
		})
	}
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

func TestRedisTLS(t *testing.T) {
	dir := t.TempDir()
	cert, certKey, ca := filepath.Join(dir, "client.pem"), filepath.Join(dir, "client.key"), filepath.Join(dir, "ca.pem")
	writeCertificate(t, cert, certKey)
	writeCertificate(t, ca, filepath.Join(dir, "ca.key"))
	config := fmt.Sprintf(`{"url":"redis://localhost","tls":{"client_certificate_file":%q,"client_certificate_key_file":%q,
		"ca":{"provider":"file","pem_files":[%q]},"server_name":"redis.internal","insecure_skip_verify":true}}`, cert, certKey, ca)
	first := mustProvisionRedis(t, config)
	got := first.options.TLS
	if got == nil || len(got.Certificates) != 1 || got.RootCAs == nil || got.ServerName != "redis.internal" || !got.InsecureSkipVerify {
		t.Fatalf("TLS %+v", got)
	}
	pool := x509.NewCertPool()
	pem, err := os.ReadFile(ca)
	if err != nil || !pool.AppendCertsFromPEM(pem) || !got.RootCAs.Equal(pool) {
		t.Errorf("the trusted authority is not the file's: %v", err)
	}
	key := first.poolKey()
	if mustProvisionRedis(t, config).poolKey() != key {
		t.Error("the key differs with the same files")
	}
	for _, renewed := range []string{cert, ca} {
		writeCertificate(t, renewed, strings.TrimSuffix(renewed, ".pem")+".key")
		if next := mustProvisionRedis(t, config).poolKey(); next == key {
			t.Errorf("a renewed %s leaves the key as it was", filepath.Base(renewed))
		} else {
			key = next
		}
	}
	plain := mustProvisionRedis(t, `{"url":"rediss://localhost"}`).options.TLS
	if plain == nil || plain.InsecureSkipVerify || plain.RootCAs != nil {
		t.Errorf("TLS by scheme is %+v", plain)
	}
}

func writeCertificate(t *testing.T, file, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "anvil"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{file: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "EC PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
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

// Whatever the URL and whatever a placeholder's value, splitting does not panic, an address is one that can be dialled,
// and only placeholders in the place of the address have a say in it.
func FuzzRedisURL(f *testing.F) {
	for _, text := range []string{
		"redis://localhost", "rediss://u:p%2F@[::1]:6380/2", "unix://u:p@/run/redis.sock", "redis://:{env.A}@host:1/3",
		"redis://{env.A}:{env.A}@{env.B}:6380/{env.C}", "redis://{a}@{b", "{env.A}", "://@:/", "redis://%7b{a%}@h",
	} {
		for _, value := range []string{"evil@evil:1/1", "%2F", "{env.A}", ""} {
			f.Add(text, value)
		}
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		u, err := splitRedisURL(text)
		if err != nil {
			return
		}
		inAddress := strings.Contains(u.address, "{")
		with := func(value string) (redisEndpoint, error) {
			return u.resolve(func(string) (string, error) { return value, nil })
		}
		got, err := with(value)
		if err != nil {
			return
		}
		if u.socket {
			if !strings.HasPrefix(got.address, "/") {
				t.Fatalf("socket %q of %q", got.address, text)
			}
		} else if _, err := redisAddress(got.address, ""); err != nil {
			t.Fatalf("address %q of %q: %v", got.address, text, err)
		}
		if inAddress {
			return
		}
		if other, err := with("1"); err != nil || other.address != got.address {
			t.Fatalf("the address of %q depends on a value elsewhere: %q, %q (%v)", text, got.address, other.address, err)
		}
	})
}
