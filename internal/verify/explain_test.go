package verify_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/verify"
)

func TestHints(t *testing.T) {
	const key = "a-secret-made-up-for-tests"
	mac := func(body string) []byte {
		m := hmac.New(sha256.New, []byte(key))
		m.Write([]byte(body))
		return m.Sum(nil)
	}
	changed := func(r *verify.Request, change func(r *verify.Request)) *verify.Request {
		change(r)
		return r
	}
	shortened := hmac.New(sha1.New, []byte(key))
	shortened.Write([]byte(someBody))
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, []byte(someBody), "", "  "); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, provider string
		secret         string
		previous       []string
		request        *verify.Request
		now            time.Duration
		want           string // the hint's code
		says           string
	}{
		{"genuine", "github", key, nil, signedPost(t, "github", key, someBody), 0, "", ""},
		{"nothing helps", "github", key, nil, signedPost(t, "github", "quite another secret", someBody), 0, "", ""},
		{"a clock that is behind", "stripe", key, nil, signedPost(t, "stripe", key, someBody), -time.Hour, "clock", "3600 s ahead of"},
		{"a replay", "stripe", key, nil, signedPost(t, "stripe", key, someBody), 2 * time.Hour, "clock", "7200 s behind"},
		{"the secret before", "github", key, []string{"x", "the-secret-before"}, signedPost(t, "github", "the-secret-before", someBody), 0, "previous_secret", "previous secret 2"},
		{"white space round the secret", "github", " " + key + "\n", nil, signedPost(t, "github", key, someBody), 0, "secret_white_space", "secret 1"},
		{"quotes round the secret", "github", `"` + key + `"`, nil, signedPost(t, "github", key, someBody), 0, "secret_quotes", ""},
		{"a line break in the sender's secret", "github", key, nil, signedPost(t, "github", key+"\n", someBody), 0, "secret_newline", ""},
		{"a secret that is hex", "github", hex.EncodeToString([]byte(key)), nil, signedPost(t, "github", key, someBody), 0, "secret_hex", ""},
		{"a secret that is base64", "github", base64.StdEncoding.EncodeToString([]byte(key)), nil, signedPost(t, "github", key, someBody), 0, "secret_base64", ""},
		{"an added line break", "github", key, nil, changed(signedPost(t, "github", key, someBody), func(r *verify.Request) { r.Body = append(r.Body, '\n') }), 0, "body_trailing_newline", ""},
		{"a removed line break", "github", key, nil, changed(signedPost(t, "github", key, someBody+"\n"), func(r *verify.Request) { r.Body = []byte(someBody) }), 0, "body_missing_newline", ""},
		{"a body formatted anew", "github", key, nil, changed(signedPost(t, "github", key, someBody), func(r *verify.Request) { r.Body = pretty.Bytes() }), 0, "body_reformatted", ""},
		{"a form", "github", key, nil, changed(signedPost(t, "github", key, "{}"), func(r *verify.Request) { r.Body = []byte("payload=%7B%7D") }), 0, "body_form", ""},
		{"http for https", "square", key, nil, changed(signedPost(t, "square", key, someBody), func(r *verify.Request) { r.URL = strings.Replace(r.URL, "https", "http", 1) }), 0, "url_scheme", "public_url"},
		{"a proxy that is not trusted", "square", key, nil, changed(signedPost(t, "square", key, someBody), func(r *verify.Request) {
			r.URL = "http://10.0.0.1/in"
			r.Header.Set("X-Forwarded-Host", "hooks.example.test")
			r.Header.Set("X-Forwarded-Proto", "https")
		}), 0, "url_forwarded", "trusted_proxies"},
		{"a slash at the end", "square", key, nil, changed(signedPost(t, "square", key, someBody), func(r *verify.Request) { r.URL += "/" }), 0, "url_slash", ""},
		{"a port that the sender does not know", "square", key, nil, changed(signedPost(t, "square", key, someBody), func(r *verify.Request) { r.URL = strings.Replace(r.URL, ".test/", ".test:8443/", 1) }), 0, "url_port", ""},
		{"a byte order mark", "github", key, nil, changed(signedPost(t, "github", key, someBody), func(r *verify.Request) { r.Body = []byte("\xef\xbb\xbf" + someBody) }), 0, "body_byte_order_mark", ""},
		{"a body that is not signed", "github", key, nil, changed(signedPost(t, "github", key, ""), func(r *verify.Request) { r.Body = []byte("{}") }), 0, "body_empty", ""},
		{"base64 for hex", "github", key, nil, post(someBody, "X-Hub-Signature-256", "sha256="+base64.StdEncoding.EncodeToString(mac(someBody))), 0, "encoding", "base64 instead of hex"},
		{"hex for base64", "shopify", key, nil, post(someBody, "X-Shopify-Hmac-Sha256", hex.EncodeToString(mac(someBody))), 0, "encoding", "hex instead of base64"},
		{"SHA-1", "github", key, nil, post(someBody, "X-Hub-Signature-256", "sha256="+hex.EncodeToString(shortened.Sum(nil))), 0, "algorithm", "sha1 instead of sha256"},
		{"no prefix", "github", key, nil, post(someBody, "X-Hub-Signature-256", hex.EncodeToString(mac(someBody))), 0, "prefix", "without the prefix"},
		{"another provider", "github", key, nil, signedPost(t, "stripe", key, someBody), 0, "provider", "verify stripe"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := newVerifier(t, c.provider, nil, c.secret)
			hints := v.Explain(t.Context(), c.request, someTime.Add(c.now), c.previous)
			if c.want == "" {
				if len(hints) > 0 {
					t.Errorf("got %+v, want none", hints)
				}
				return
			}
			if len(hints) == 0 || hints[0].Code != c.want || !strings.Contains(hints[0].Text, c.says) {
				t.Fatalf("got %+v, want %s %q", hints, c.want, c.says)
			}
			for _, h := range hints {
				for _, hidden := range []string{key, "the-secret-before", "invoice.paid", hex.EncodeToString(mac(someBody)), base64.StdEncoding.EncodeToString(mac(someBody))} {
					if strings.Contains(h.Text, hidden) {
						t.Errorf("a hint shows %q: %s", hidden, h.Text)
					}
				}
			}
		})
	}
}

// Hints are for requests of strangers too, so nothing may stop the search for them, and there is none for a genuine one.
func TestEveryProviderExplainsItself(t *testing.T) {
	eachProvider(t, func(t *testing.T, g *genuine) {
		if hints := g.verifier.Explain(t.Context(), g.request, someTime, nil); len(hints) > 0 {
			t.Errorf("of a genuine request: %+v", hints)
		}
		longer := g.clone()
		longer.Body = append(longer.Body, "\r\n"...)
		hints := g.verifier.Explain(t.Context(), longer, someTime, []string{g.other, "previous"})
		if refused := !g.verifier.Verify(t.Context(), longer, someTime).OK; refused && len(hints) == 0 && g.provider.ID != "quoter" {
			t.Error("no hint for a line break behind the body")
		}
		if g.provider.TimestampIn == "" {
			return
		}
		if hints := g.verifier.Explain(t.Context(), g.request, someTime.Add(g.provider.Past+2*time.Minute), nil); len(hints) == 0 || hints[0].Code != "clock" {
			t.Errorf("stale: %+v", hints)
		}
	})
}

func TestTheSearchForHintsIsBounded(t *testing.T) {
	const key = "a-secret-made-up-for-tests"
	v := newVerifier(t, "github", nil, `"`+key+`"`)
	if hints := v.Explain(t.Context(), signedPost(t, "github", key, someBody), someTime, nil); len(hints) == 0 {
		t.Fatal("no hint")
	}
	large := signedPost(t, "github", key, strings.Repeat("x", 64<<10+1))
	if hints := v.Explain(t.Context(), large, someTime, nil); len(hints) > 0 {
		t.Errorf("of a large body: %+v", hints)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if hints := v.Explain(over, signedPost(t, "github", key, someBody), someTime, nil); len(hints) > 0 {
		t.Errorf("when time was up: %+v", hints)
	}
}
