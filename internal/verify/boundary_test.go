package verify_test

import (
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/caddy-anvil/anvil/internal/verify"
)

// What is signed may be read in more ways than one: where parts follow each other without a mark that cannot stand in
// them, and where the provider itself accepts several spellings. Each reading has the same signed hash, and it counts once.
func TestWhatCanBeReadInTwoWaysCountsOnce(t *testing.T) {
	ts := strconv.FormatInt(someTime.Unix(), 10)
	const dotted = `{"id":"evt_1","amount":"1.5"}`
	head, tail, _ := strings.Cut(dotted, ".")
	hook0 := "x-event-id.id-1." + dotted
	for _, c := range []struct {
		name, provider string
		body           string
		// other is the same message, read in another way.
		other func(r *verify.Request)
	}{
		{"the beginning of the body as the end of the URL", "square", someBody, func(r *verify.Request) { r.URL, r.Body = r.URL+someBody[:9], []byte(someBody[9:]) }},
		{"the beginning of the body as the end of the URL", "hubspot", someBody, func(r *verify.Request) { r.URL, r.Body = r.URL+someBody[:9], []byte(someBody[9:]) }},
		{"the beginning of the body as the end of the URL", "hubspot-v2", someBody, func(r *verify.Request) { r.URL, r.Body = r.URL+someBody[:9], []byte(someBody[9:]) }},
		{"the end of the body as the beginning of the URL", "trello", "{}https://hooks.example.test/", func(r *verify.Request) {
			r.URL, r.Body = "https://hooks.example.test/"+r.URL, []byte("{}")
		}},
		{"another spelling of the URL", "hubspot", "", func(r *verify.Request) { r.URL = strings.Replace(r.URL, "x=a:b", "x=a%3Ab", 1) }},
		{"an empty query", "contentful", "", func(r *verify.Request) { r.URL += "?" }},
		{"another order of the query", "messagebird-legacy", "", func(r *verify.Request) { r.URL = strings.Replace(r.URL, "x=a:b&y=2", "y=2&x=a:b", 1) }},
		{"another path", "messagebird-legacy", "", func(r *verify.Request) { r.URL = strings.Replace(r.URL, "/in", "/other", 1) }},
		{"the beginning of the body as the end of the id", "twitch", `{"at":"2026-01-01T00:00:00Z","x":1}`, func(r *verify.Request) {
			id := r.Header.Get("Twitch-Eventsub-Message-Id") + r.Header.Get("Twitch-Eventsub-Message-Timestamp")
			before, after, _ := strings.Cut(string(r.Body), "2026-01-01T00:00:00Z")
			r.Header.Set("Twitch-Eventsub-Message-Id", id+before)
			r.Body = []byte(after)
		}},
		{"the merchant as a part of the body", "solidgate", someBody, func(r *verify.Request) {
			m := r.Header.Get("Merchant")
			r.Header.Set("Merchant", "")
			r.Body = []byte(m + string(r.Body) + m)
		}},
		{"the beginning of the body as the end of a header", "alipay", dotted, func(r *verify.Request) {
			r.Header.Set("Request-Time", r.Header.Get("Request-Time")+"."+head)
			r.Body = []byte(tail)
		}},
		{"headers as a part of the body", "hook0", hook0, func(r *verify.Request) {
			r.Header.Set("X-Hook0-Signature", strings.Replace(r.Header.Get("X-Hook0-Signature"), "v0=", "h=x-event-id,v1=", 1))
			r.Header.Set("X-Event-Id", "id-1")
			r.Body = []byte(dotted)
		}},
		{"headers as a part of the body", "coinbase-cdp", hook0, func(r *verify.Request) {
			r.Header.Set("X-Hook0-Signature", strings.Replace(r.Header.Get("X-Hook0-Signature"), "v0=", "h=x-event-id,v1=", 1))
			r.Header.Set("X-Event-Id", "id-1")
			r.Body = []byte(dotted)
		}},
		{"the beginning of the body as the end of the nonce", "nmi", `{"id":"a.b"}`, func(r *verify.Request) {
			r.Header.Set("Webhook-Signature", strings.Replace(r.Header.Get("Webhook-Signature"), ",s=", `.{"id":"a,s=`, 1))
			r.Body = []byte(`b"}`)
		}},
		{"the signed time as the end of the body", "ghost", someBody, func(r *verify.Request) { r.Body = append(r.Body, ts+"000"...) }},
	} {
		t.Run(c.provider+": "+c.name, func(t *testing.T) {
			p, _ := verify.Lookup(c.provider)
			secret := strings.Repeat("s", 64)
			keys := verify.SignKeys{Secret: secret}
			if p.Family == verify.FamilyPublicKey {
				private := testKeys().private[2]
				secret, keys = publicOf(t, private), verify.SignKeys{Private: private}
			}
			o := verify.Options{}
			if c.provider == "ghost" {
				o["legacy"] = "on"
			}
			r := &verify.Request{Method: http.MethodPost, URL: "https://hooks.example.test/in?x=a:b&y=2", Header: http.Header{}, Body: []byte(c.body)}
			if c.body == "" {
				r.Method = http.MethodGet
			}
			if c.provider == "contentful" {
				r.URL, _, _ = strings.Cut(r.URL, "?")
			}
			if err := verify.Sign(c.provider, keys, o, r, someTime); err != nil {
				t.Fatal(err)
			}
			other := *r
			other.Header = maps.Clone(r.Header)
			other.Body = append([]byte(nil), r.Body...)
			c.other(&other)
			v := newVerifier(t, c.provider, o, secret)
			a, b := v.Verify(t.Context(), r, someTime), v.Verify(t.Context(), &other, someTime)
			if !a.OK || !b.OK {
				t.Fatalf("got %+v and %+v: there is only one way to read it", a, b)
			}
			if v.SignedHash(r, a, someTime) != v.SignedHash(&other, b, someTime) {
				t.Error("the other reading has another signed hash")
			}
			if !p.Once {
				t.Error("it does not count once")
			}
		})
	}
}

func TestATokenOfVonageWithoutAHashCountsOnce(t *testing.T) {
	v := newVerifier(t, "vonage", nil, secret)
	p := v.Provider()
	r := bearer(t, jwt.SigningMethodHS256, []byte(secret), jwt.MapClaims{"iss": "Vonage", "iat": someTime.Unix(), "jti": "j-1"})
	other := *r
	other.Method, other.Body = http.MethodGet, []byte("any event")
	a, b := v.Verify(t.Context(), r, someTime), v.Verify(t.Context(), &other, someTime)
	if !a.OK || !b.OK {
		t.Fatalf("got %+v and %+v", a, b)
	}
	if v.SignedHash(r, a, someTime) != v.SignedHash(&other, b, someTime) || !p.Once {
		t.Errorf("any number of events fits one token: %+v", p)
	}
	if p.CoversBody {
		t.Error("a genuine token may stand beside any body, yet it is said to cover the body")
	}
}
