package anvil

import (
	"strings"
	"testing"
)

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
		{"long accept_timeout", `{` + server + `,"accept_timeout":"11s"}`, "accept_timeout must be at most 10s"},
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
