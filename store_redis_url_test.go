package anvil

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/caddy-anvil/anvil/internal/store/redis"
)

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
