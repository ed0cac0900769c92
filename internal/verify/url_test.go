package verify_test

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/caddy-anvil/anvil/internal/verify"
)

func signedAt(t *testing.T, provider, url, contentType, body string) *verify.Request {
	t.Helper()
	r := &verify.Request{Method: http.MethodPost, URL: url, Header: http.Header{"Content-Type": {contentType}}, Body: []byte(body)}
	if err := verify.Sign(provider, verify.SignKeys{Secret: secret}, nil, r, someTime); err != nil {
		t.Fatal(err)
	}
	return r
}

// The URL is signed as the sender saw it, and no character of it may be lost on the way to the signature.
func TestTheURLIsSignedAsItIs(t *testing.T) {
	const form = "application/x-www-form-urlencoded"
	for _, provider := range []string{"twilio", "square", "trello", "mandrill", "hubspot", "hubspot-v2", "plivo"} {
		for _, url := range []string{
			"https://pub.example/in?b=2&a=1+1%27", "https://pub.example/", "https://pub.example/a%2Fb/?x=%20&x=", "http://pub.example:8080/in", "https://[2001:db8::1]/in",
		} {
			r := signedAt(t, provider, url, form, "a=1&b=2")
			v := newVerifier(t, provider, nil, secret)
			if got := v.Verify(t.Context(), r, someTime); !got.OK {
				t.Errorf("%s %s: refused: %s", provider, url, got.Reason)
			}
			for _, other := range []string{strings.Replace(url, "pub", "pub2", 1), strings.Replace(url, "https", "httpx", 1) + "#", url + "x", url + "?", ""} {
				changed := *r
				if changed.URL = other; other == url || strings.HasPrefix(url, "http:") && strings.HasSuffix(other, "#") {
					continue
				}
				if provider == "plivo" && other == url+"?" {
					continue // an empty query is none
				}
				if v.Verify(t.Context(), &changed, someTime).OK {
					t.Errorf("%s: signed for %s, accepted at %s", provider, url, other)
				}
			}
		}
	}
}

func TestTwilioMaySignWithOrWithoutThePort(t *testing.T) {
	const form = "application/x-www-form-urlencoded"
	v := newVerifier(t, "twilio", nil, secret)
	for _, c := range []struct{ signed, at string }{
		{"https://pub.example/in", "https://pub.example:443/in"},
		{"https://pub.example:443/in", "https://pub.example/in"},
		{"http://pub.example:80/in", "http://pub.example/in"},
		{"https://pub.example/in", "https://pub.example:8443/in"},
	} {
		r := signedAt(t, "twilio", c.signed, form, "a=1")
		r.URL = c.at
		if got := v.Verify(t.Context(), r, someTime); !got.OK {
			t.Errorf("%+v: got %+v", c, got)
		}
	}
	r := signedAt(t, "twilio", "http://pub.example/in", form, "a=1")
	r.URL = "https://pub.example/in"
	if v.Verify(t.Context(), r, someTime).OK {
		t.Error("another scheme is accepted")
	}
}

func TestTwilioCoversBodiesThatAreNoForms(t *testing.T) {
	v := newVerifier(t, "twilio", nil, secret)
	r := signedAt(t, "twilio", "https://pub.example/in", "application/json", `{"a":1}`)
	if got := v.Verify(t.Context(), r, someTime); !got.OK {
		t.Fatalf("got %+v", got)
	}
	changed := *r
	changed.Body = []byte(`{"a":2}`)
	if got := v.Verify(t.Context(), &changed, someTime); got.Reason != verify.ReasonNoMatch {
		t.Errorf("another body: got %+v", got)
	}
	// Signed without a body, and a JSON body put beside it.
	empty := signedAt(t, "twilio", "https://pub.example/in", "application/json", "")
	empty.Body = []byte(`{"a":2}`)
	if v.Verify(t.Context(), empty, someTime).OK {
		t.Error("a body that nothing covers is accepted")
	}
	downgraded := *r
	downgraded.Header = r.Header.Clone()
	downgraded.Header.Set("X-Twilio-Webhooks-Signature-Settings", "key=1,algorithm=HMAC_MD5")
	if got := v.Verify(t.Context(), &downgraded, someTime); got.Reason != verify.ReasonUnsupported {
		t.Errorf("an unknown algorithm: got %+v", got)
	}
}

func TestHubSpotMaySignTheDecodedURL(t *testing.T) {
	v := newVerifier(t, "hubspot", nil, secret)
	r := signedAt(t, "hubspot", "https://pub.example/in?x=a:b/c@d", "application/json", "{}")
	r.URL = "https://pub.example/in?x=a%3Ab%2Fc%40d"
	if got := v.Verify(t.Context(), r, someTime); !got.OK {
		t.Errorf("got %+v", got)
	}
	r.URL = "https://pub.example/in?x=a:b/c%2640d"
	if v.Verify(t.Context(), r, someTime).OK {
		t.Error("another URL is accepted")
	}
}

func TestTwilioSortsByUTF16(t *testing.T) {
	const key = "a-token-made-up-for-tests"
	// In UTF-16 a character of two units comes before the last ones of one unit; in UTF-8 behind them.
	sorted := []string{"", "a", "ab", "é", "\ud7ff", "😀", "😁", "\uff21"}
	var form, message []string
	for i := len(sorted) - 1; i >= 0; i-- {
		form = append(form, url.QueryEscape("k"+sorted[i])+"=v")
	}
	for _, name := range sorted {
		message = append(message, "k"+name+"v")
	}
	mac := hmac.New(sha1.New, []byte(key))
	mac.Write([]byte(someURL + strings.Join(message, "")))
	r := post(strings.Join(form, "&"), "Content-Type", "application/x-www-form-urlencoded", "X-Twilio-Signature", base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	r.URL = someURL
	if got := newVerifier(t, "twilio", nil, key).Verify(t.Context(), r, someTime); !got.OK {
		t.Errorf("got %+v", got)
	}
}

func TestFormsOfTenThousandFieldsAtMost(t *testing.T) {
	const key = "a-token-made-up-for-tests"
	for n, want := range map[int]bool{10_000: true, 10_001: false} {
		r := post("a=1"+strings.Repeat("&a=1", n-1), "Content-Type", "application/x-www-form-urlencoded")
		mac := hmac.New(sha1.New, []byte(key))
		mac.Write([]byte(r.URL + "a1"))
		r.Header.Set("X-Twilio-Signature", base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		if got := newVerifier(t, "twilio", nil, key).Verify(t.Context(), r, someTime); got.OK != want {
			t.Errorf("%d fields: got %+v", n, got)
		}
	}
}

// json_encode escapes a slash behind an escaped backslash too, and DEL not at all.
func TestTreezorsPayloadIsEscapedAsPHPDoes(t *testing.T) {
	const key = "a-secret-made-up-for-tests"
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(`{"a":"\\\/\/\u00e9\ud83d\ude00` + "\x7f" + `"}`))
	sig := base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for _, payload := range []string{`{"a":"\\/` + `/é😀` + "\x7f" + `"}`, `{ "a": "\\\/\/\u00e9\ud83d\ude00` + "\x7f" + `"}`} {
		r := post(`{"object_payload":` + payload + `,"object_payload_signature":"` + sig + `"}`)
		if got := newVerifier(t, "treezor", nil, key).Verify(t.Context(), r, someTime); !got.OK {
			t.Errorf("%s: got %+v", payload, got)
		}
	}
}
