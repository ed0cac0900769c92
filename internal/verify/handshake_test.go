package verify_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/verify"
)

// fetcher answers from a map, and remembers what was asked for.
type fetcher struct {
	docs  map[string]string
	asked []string
}

func (f *fetcher) Fetch(_ context.Context, url string, _ time.Duration) ([]byte, error) {
	f.asked = append(f.asked, url)
	doc, ok := f.docs[url]
	if !ok {
		return nil, errors.New("not there")
	}
	return []byte(doc), nil
}

func get(query string) *verify.Request {
	return &verify.Request{Method: http.MethodGet, URL: "https://hooks.example.test/in?" + query, Header: http.Header{}}
}

func post(body string, headers ...string) *verify.Request {
	r := &verify.Request{Method: http.MethodPost, URL: "https://hooks.example.test/in", Header: http.Header{}, Body: []byte(body)}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

// signedPost is a POST that the provider has signed.
func signedPost(t *testing.T, provider, secret, body string, headers ...string) *verify.Request {
	t.Helper()
	r := post(body, headers...)
	if err := verify.Sign(provider, verify.SignKeys{Secret: secret}, nil, r, someTime); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestHandshakes(t *testing.T) {
	const key = "a-secret-made-up-for-tests"
	for _, c := range []struct {
		name, provider string
		options        verify.Options
		request        *verify.Request
		want           verify.Answer // Status 0: not answered
	}{
		{"meta with the right token", "meta", verify.Options{"verify_token": "vt"}, get("hub.mode=subscribe&hub.verify_token=vt&hub.challenge=42"), verify.Answer{Status: 200, ContentType: "text/plain", Body: "42"}},
		{"meta with another token", "meta", verify.Options{"verify_token": "vt"}, get("hub.mode=subscribe&hub.verify_token=xx&hub.challenge=42"), verify.Answer{Status: 403}},
		{"meta with no token", "meta", verify.Options{"verify_token": "vt"}, get("hub.mode=subscribe&hub.challenge=42"), verify.Answer{Status: 403}},
		{"meta by an alias", "whatsapp", nil, get("hub.mode=subscribe&hub.challenge=42"), verify.Answer{Status: 200, ContentType: "text/plain", Body: "42"}},
		{"meta, a GET that is none", "meta", nil, get("x=1"), verify.Answer{}},
		{"strava", "strava", verify.Options{"verify_token": "vt"}, get("hub.mode=subscribe&hub.verify_token=vt&hub.challenge=a%22b"), verify.Answer{Status: 200, ContentType: "application/json", Body: `{"hub.challenge":"a\"b"}`}},
		{"websub unsubscribes", "websub", nil, get("hub.mode=unsubscribe&hub.challenge=c"), verify.Answer{Status: 200, ContentType: "text/plain", Body: "c"}},
		{"x", "x", nil, get("crc_token=abc"), verify.Answer{Status: 200, ContentType: "application/json", Body: `{"response_token":"sha256=hozWXXrM0IwWFp9mVDJbRjdK1RQNEVYnelDZwO00Vr4="}`}},
		{"x will not sign a body for a stranger", "x", nil, get("crc_token=" + url.QueryEscape(`{"id":1}`)), verify.Answer{Status: 400}},
		{"linkedin will not sign a body for a stranger", "linkedin", nil, get("challengeCode=" + url.QueryEscape(`hmacsha256={"id":1}`)), verify.Answer{Status: 400}},
		{"oura", "oura", verify.Options{"verify_token": "vt"}, get("verification_token=vt&challenge=c"), verify.Answer{Status: 200, ContentType: "application/json", Body: `{"challenge":"c"}`}},
		{"braintree will not sign a payload for a stranger", "braintree", nil, get("bt_challenge=PHhtbD4K"), verify.Answer{Status: 400}},
		{"braintree's challenges are in lower case", "braintree", nil, get("bt_challenge=20F9F8ED05F77439FE955C977E4C8A53"), verify.Answer{Status: 400}},
		{"trello asks with HEAD", "trello", nil, &verify.Request{Method: http.MethodHead, URL: someURL, Header: http.Header{}}, verify.Answer{Status: 200}},
		{"mailchimp asks with GET", "mailchimp", nil, get(""), verify.Answer{Status: 200}},
		{"github has no handshake", "github", nil, get("hub.mode=subscribe&hub.challenge=42"), verify.Answer{}},
		{"slack, signed", "slack", nil, signedPost(t, "slack", key, `{"type":"url_verification","challenge":"c"}`), verify.Answer{Status: 200, ContentType: "text/plain", Body: "c"}},
		{"slack, not signed", "slack", nil, post(`{"type":"url_verification","challenge":"c"}`), verify.Answer{}},
		{"slack, an event", "slack", nil, signedPost(t, "slack", key, `{"type":"event_callback"}`), verify.Answer{}},
		{"zoom", "zoom", nil, signedPost(t, "zoom", key, `{"event":"endpoint.url_validation","payload":{"plainToken":"abc"}}`), verify.Answer{Status: 200, ContentType: "application/json", Body: `{"plainToken":"abc","encryptedToken":"868cd65d7accd08c16169f6654325b46374ad5140d1156277a50d9c0ed3456be"}`}},
		{"zoom, not signed", "zoom", nil, post(`{"event":"endpoint.url_validation","payload":{"plainToken":"abc"}}`), verify.Answer{}},
		{"smartcar", "smartcar", nil, signedPost(t, "smartcar", key, `{"eventType":"VERIFY","data":{"challenge":"abc"}}`), verify.Answer{Status: 200, ContentType: "application/json", Body: `{"challenge":"868cd65d7accd08c16169f6654325b46374ad5140d1156277a50d9c0ed3456be"}`}},
		{"tebex", "tebex", nil, signedPost(t, "tebex", key, `{"type":"validation.webhook","id":"w-1"}`), verify.Answer{Status: 200, ContentType: "application/json", Body: `{"id":"w-1"}`}},
		{"xero, no events", "xero", nil, signedPost(t, "xero", key, `{"events":[],"entropy":"x"}`), verify.Answer{Status: 200}},
		{"xero, no events with a blank", "xero", nil, signedPost(t, "xero", key, `{"events": [ ]}`), verify.Answer{Status: 200}},
		{"xero, events", "xero", nil, signedPost(t, "xero", key, `{"events":[{}]}`), verify.Answer{}},
		{"xero, wrongly signed", "xero", nil, post(`{"events":[]}`, "X-Xero-Signature", "AAAA"), verify.Answer{}},
		{"asana", "asana", nil, post("", "X-Hook-Secret", "s"), verify.Answer{Status: 200, Token: "s"}},
		{"asana, an event with a secret of a stranger", "asana", nil, post("{}", "X-Hook-Secret", "s", "X-Hook-Signature", "00"), verify.Answer{}},
		{"notion", "notion", nil, post(`{"verification_token":"secret_x"}`), verify.Answer{Status: 200, Token: "secret_x"}},
		{"notion, a token as long as a page", "notion", nil, post(`{"verification_token":"` + strings.Repeat("x", 1025) + `"}`), verify.Answer{Status: 400}},
		{"notion, a token with a line break", "notion", nil, post(`{"verification_token":"a\nb"}`), verify.Answer{Status: 400}},
		{"notion, an event without a signature", "notion", nil, post(`{"id":"1"}`), verify.Answer{}},
		{"monday", "monday", nil, post(`{"challenge":"c"}`), verify.Answer{Status: 200, ContentType: "application/json", Body: `{"challenge":"c"}`}},
		{"monday, an event with a challenge", "monday", nil, post(`{"challenge":"c","event":{}}`), verify.Answer{}},
		{"front", "front", nil, post("{}", "X-Front-Challenge", "c"), verify.Answer{Status: 200, ContentType: "text/plain", Body: "c"}},
		{"ringcentral", "ringcentral", nil, post("", "Validation-Token", "v"), verify.Answer{Status: 200}},
		{"sharepoint", "sharepoint", nil, &verify.Request{Method: http.MethodPost, URL: "https://h.test/?validationtoken=a+b", Header: http.Header{}}, verify.Answer{Status: 200, ContentType: "text/plain", Body: "a b"}},
		{"event grid, another event", "azure-event-grid", nil, post("[]", "Aeg-Event-Type", "Notification"), verify.Answer{}},
		{"woocommerce", "woocommerce", nil, post("webhook_id=7"), verify.Answer{Status: 200}},
		{"woocommerce, another unsigned form", "woocommerce", nil, post("webhook_id=7&x=1"), verify.Answer{}},
		{"exact online", "exact-online", nil, post(""), verify.Answer{Status: 200}},
		{"vercel", "vercel", verify.Options{"verify_header": "v"}, post("[]"), verify.Answer{Status: 200}},
		{"vercel, nothing configured", "vercel", nil, post("[]"), verify.Answer{}},
		{"cloudevents without a rate", "cloudevents", nil, &verify.Request{Method: http.MethodOptions, URL: someURL, Header: http.Header{"Webhook-Request-Origin": {"o.test"}}}, verify.Answer{Status: 200}},
		{"cloudevents with a line break", "cloudevents", nil, &verify.Request{Method: http.MethodOptions, URL: someURL, Header: http.Header{"Webhook-Request-Origin": {"o.test\r\nX: y"}}}, verify.Answer{Status: 400}},
	} {
		t.Run(c.name, func(t *testing.T) {
			secrets := []string{key}
			switch c.provider {
			case "braintree":
				secrets = []string{"public:private-made-up"}
			case "strava":
				secrets = nil
			}
			v := newVerifier(t, c.provider, c.options, secrets...)
			if v.Lacks(c.request) && c.want.Status != 0 {
				t.Error("it is said to lack a header, so it would be refused unread")
			}
			got, ok := shake(t, v, c.request, someTime)
			if ok != (c.want.Status != 0) || got.Status != c.want.Status || got.Body != c.want.Body || got.ContentType != c.want.ContentType || got.Token != c.want.Token {
				t.Errorf("got %+v, %v, want %+v", got, ok, c.want)
			}
			if got.Body != "" && got.Headers["X-Content-Type-Options"] != "nosniff" {
				t.Error("a browser may take the answer for a page")
			}
		})
	}
}

func TestEchoesAreBoundedAndPlain(t *testing.T) {
	for _, provider := range []string{"dropbox", "nylas", "meta", "websub", "oura", "okta", "strava", "ebay", "microsoft-graph", "x", "linkedin"} {
		var secrets []string
		if p, _ := verify.Lookup(provider); p.Proves {
			secrets = []string{"a-secret-made-up-for-tests-of-32-bytes"}
		}
		v := newVerifier(t, provider, nil, secrets...)
		for name, text := range map[string]string{
			"too long": strings.Repeat("x", 1025), "a line break": "a\r\nb", "NUL": "a\x00b", "not UTF-8": "\xff", "nothing": "",
		} {
			q := url.QueryEscape(text)
			r := get("hub.mode=subscribe&hub.challenge=" + q + "&challenge=" + q + "&crc_token=" + q + "&challengeCode=" + q + "&challenge_code=" + q + "&validationToken=" + q)
			r.Header["X-Okta-Verification-Challenge"] = []string{text}
			if provider == "microsoft-graph" {
				r.Method = http.MethodPost
			}
			if got, ok := shake(t, v, r, someTime); !ok || got.Status != http.StatusBadRequest || got.Body != "" {
				t.Errorf("%s, %s: got %+v, %v", provider, name, got, ok)
			}
		}
	}
}

func TestDiscordPings(t *testing.T) {
	private := testKeys().private[0]
	v := newVerifier(t, "discord", nil, publicOf(t, private))
	for body, want := range map[string]int{
		`{"type":1}`:                      200,
		`{"type":0}`:                      204,
		`{"type":1,"event":{"type":"X"}}`: 0, // a webhook event
		`{"type":2}`:                      0,
	} {
		r := post(body)
		if got, ok := shake(t, v, r, someTime); ok {
			t.Errorf("%s: answered unsigned: %+v", body, got)
		}
		if err := verify.Sign("discord", verify.SignKeys{Private: private}, nil, r, someTime); err != nil {
			t.Fatal(err)
		}
		if got, ok := shake(t, v, r, someTime); ok != (want != 0) || got.Status != want {
			t.Errorf("%s: got %+v, %v, want %d", body, got, ok, want)
		}
	}
}

func TestWithoutASecretOnlyHandshakesAreAnswered(t *testing.T) {
	for _, provider := range []string{"asana", "notion", "nylas", "websub", "clio", "azure-event-grid", "cloudevents", "microsoft-graph", "sharepoint", "trello", "mandrill"} {
		v, err := verify.New(provider, nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := v.Verify(t.Context(), post("{}"), someTime), (verify.Verdict{Reason: verify.ReasonNoSecret}); got != want {
			t.Errorf("%s: got %+v, want %+v", provider, got, want)
		}
	}
	v, _ := verify.New("asana", nil, nil, nil)
	if a, ok := shake(t, v, post("", "X-Hook-Secret", "s"), someTime); !ok || a.Headers["X-Hook-Secret"] != "s" {
		t.Errorf("asana: got %+v, %v", a, ok)
	}
}

func TestSNSSubscriptionsAreConfirmedAtAWSOnly(t *testing.T) {
	for _, c := range []struct {
		name, url string
		known     bool
		want      int
	}{
		{"at AWS", "https://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription&Token=x", true, 200},
		{"at AWS, which does not answer", "https://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription&Token=x", false, 503},
		{"elsewhere", "https://sns.us-east-1.amazonaws.com.evil.test/", true, 400},
		{"without TLS", "http://sns.us-east-1.amazonaws.com/", true, 400},
		{"with a user", "https://sns.us-east-1.amazonaws.com@evil.test/", true, 400},
		{"on another port", "https://sns.us-east-1.amazonaws.com:8443/", true, 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fetcher{docs: map[string]string{}}
			if c.known {
				f.docs[c.url] = "<ConfirmSubscriptionResponse/>"
			}
			v, err := verify.New("aws-sns", []string{oddSecrets["aws-sns"][0]}, verify.Options{"certificate": testKeys().certificate}, f)
			if err != nil {
				t.Fatal(err)
			}
			r := signedSNS(t, map[string]string{"Type": "SubscriptionConfirmation", "SubscribeURL": c.url, "Token": "x"})
			got, ok := shake(t, v, r, someTime)
			if !ok || got.Status != c.want {
				t.Errorf("got %+v, %v, want %d", got, ok, c.want)
			}
			if c.want == 400 && len(f.asked) > 0 {
				t.Errorf("it was fetched: %q", f.asked)
			}
		})
	}
}
