package deliver

import (
	"strings"
	"testing"

	"github.com/caddy-anvil/anvil/internal/event"
)

func TestParseUpstreamAcceptsTheDocumentedForms(t *testing.T) {
	for in, want := range map[string]string{
		"http://app":                       "http://app",
		"http://app:3000":                  "http://app:3000",
		"https://app.example.com/hook?a=1": "https://app.example.com/hook?a=1",
		"HTTP://app/":                      "http://app/",
		"app:3000":                         "http://app:3000",
		":3000":                            "http://localhost:3000",
		"127.0.0.1:80":                     "http://127.0.0.1:80",
		"[::1]:3000":                       "http://[::1]:3000",
		"http://[::1]/x":                   "http://[::1]/x",
		"my_container:9000":                "http://my_container:9000",
		"http://bücher.example":            "http://b%C3%BCcher.example",
		"http://app?source=hooks":          "http://app/?source=hooks",
	} {
		got, err := ParseUpstream(in)
		if err != nil || got != want {
			t.Errorf("ParseUpstream(%q) = %q, %v, want %q", in, got, err, want)
		}
		if again, err := ParseUpstream(got); err != nil || again != got {
			t.Errorf("ParseUpstream(%q) = %q, %v, want it unchanged", got, again, err)
		}
	}
}

func TestParseUpstreamRefusesTheRestAndSaysWhatIsAllowed(t *testing.T) {
	for in, want := range map[string]string{
		"":                         "empty",
		"app":                      "neither a URL nor host:port",
		"app:3000/hook":            "full URL",
		"/hook":                    "full URL",
		"app:":                     "port",
		"app:http":                 "port",
		"app:0":                    "port",
		"app:65536":                "port",
		"http://app:":              "port",
		"http://app:70000/":        "port",
		"http://app:-1/":           "malformed",
		"ftp://app":                `scheme "ftp"`,
		"unix:///run/app.sock":     `scheme "unix"`,
		"http://":                  "host is missing",
		"http:///hook":             "host is missing",
		"http://:80":               "host is missing",
		"http://app/#top":          "fragment",
		"http://app#":              "fragment",
		"http://user:hunter2@app/": "user name or password",
		"user:hunter2@app:80":      "",
		"me@app:80":                "user name or password",
		"http://ok.test@127.0.0.1": "user name or password",
		"http://a b/":              "malformed",
		"http://a*b/":              "not a name",
		"http://[::1":              "malformed",
		"http://[zz]":              "malformed",
		"http://[1.2.3.4]":         "malformed",
		"[::%25\xc3]:1":            "not a name",
		"http://app/\x00":          "malformed",
		"http://app/%zz":           "malformed",
	} {
		_, err := ParseUpstream(in)
		switch {
		case err == nil:
			t.Errorf("ParseUpstream(%q) was accepted", in)
		case !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "allowed are http://host"):
			t.Errorf("ParseUpstream(%q): %q does not say %q and what is allowed", in, err, want)
		case strings.Contains(err.Error(), "hunter2"):
			t.Errorf("ParseUpstream(%q) repeats the password: %q", in, err)
		}
	}
}

func TestTargetWithoutAPathTakesTheEventsOwn(t *testing.T) {
	for _, c := range []struct{ target, uri, want string }{
		{"http://app:1", "/hooks/a%2Fb?x=1&y=%20&x=2", "http://app:1/hooks/a%2Fb?x=1&y=%20&x=2"},
		{"http://app:1", "/hooks?", "http://app:1/hooks?"},
		{"http://app:1", "/a;b=c/../d", "http://app:1/a;b=c/../d"},
		{"http://app:1/", "/hooks?x=1", "http://app:1/"},
		{"http://app:1/in?k=v", "/hooks?x=1", "http://app:1/in?k=v"},
		{"http://app:1", "//evil.example/x", "http://app:1//evil.example/x"},
		{"http://app:1", "http://evil.example/x?y", "http://app:1/x?y"},
		{"http://app:1", "*", "http://app:1/"},
		{"http://app:1", "", "http://app:1/"},
		{"http://app:1", "/%zz", "http://app:1/"},
	} {
		u, err := resolve(c.target, &event.Payload{URI: c.uri, Body: []byte("x")})
		if err != nil {
			t.Errorf("resolve(%q, %q): %v", c.target, c.uri, err)
			continue
		}
		if got := u.Scheme + "://" + u.Host + u.RequestURI(); got != c.want {
			t.Errorf("resolve(%q, %q) = %q, want %q", c.target, c.uri, got, c.want)
		}
	}
}

func TestTheQueryOfAnEventWithoutABodyGoesAlongToEveryTarget(t *testing.T) {
	for target, want := range map[string]string{
		"http://app:1":          "http://app:1/hooks?x=1&y=%20",
		"http://app:1/":         "http://app:1/?x=1&y=%20",
		"http://app:1/in?k=v":   "http://app:1/in?k=v&x=1&y=%20",
		"http://app:1/in?x=own": "http://app:1/in?x=own&y=%20",
	} {
		u, err := resolve(target, &event.Payload{URI: "/hooks?x=1&y=%20"})
		if err != nil || u.String() != want {
			t.Errorf("resolve(%q) = %q, %v; want %q", target, u, err, want)
		}
	}
}

func FuzzParseUpstream(f *testing.F) {
	for _, s := range []string{"", ":3000", "app:3000", "http://app/x?y", "http://user:pw@app", "https://[::1%25eth0]:1/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseUpstream(s)
		if err != nil {
			return
		}
		if again, err := ParseUpstream(got); err != nil || again != got {
			t.Fatalf("ParseUpstream(%q) = %q, which gives %q, %v", s, got, again, err)
		}
	})
}
