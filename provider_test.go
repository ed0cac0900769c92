package anvil

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/verify"
)

// as is a provider that signs with the secret of all tests.
func as(t testing.TB, id string, o verify.Options) signer {
	t.Helper()
	p, ok := verify.Lookup(id)
	if !ok {
		t.Fatalf("no provider %s", id)
	}
	return signer{Provider: p, keys: verify.SignKeys{Secret: testSecret}, options: o}
}

// stored are the events of the store, newest first, with their payloads.
func (s *site) stored() []event.Event {
	s.Helper()
	db := openEngines()[0].store
	list, _, err := db.Events(s.Context(), store.EventFilter{Limit: 100})
	if err != nil {
		s.Fatal(err)
	}
	for i := range list {
		if list[i], _, err = db.Event(s.Context(), list[i].ID); err != nil {
			s.Fatal(err)
		}
	}
	return list
}

func requests(source, outcome, reason string) float64 {
	return testutil.ToFloat64(requestsTotal.WithLabelValues(source, outcome, reason))
}

func replayed(r reply) bool { return strings.Contains(r.body, `"replayed":true`) }

func TestReportOnlyLetsEverythingInAndMarksIt(t *testing.T) {
	s := newSite(t)
	upstream, got := upstream(t)
	s.mustLoad("anvil reported {\nverify stripe "+testSecret+" {\nreport_only\n}\nrespond 202\ndeliver "+upstream+"\n}", "")
	stripe := as(t, "stripe", nil)
	forge := func(r *http.Request) { r.Header.Set("Stripe-Signature", "t=1,v1="+strings.Repeat("0", 64)) }
	before := requests("reported", "accepted", "too_old")

	forged := s.sendAs(stripe, "/", someEvent, forge)
	if r := receive(t, got); forged.status != 202 || r.Header.Get("Anvil-Verified") != "false" || r.Header.Get("Anvil-Event-Type") != "" {
		t.Errorf("forged: %d, arrived with %v", forged.status, r.Header)
	}
	// A forgery never shadows the genuine event.
	genuine := s.sendAs(stripe, "/", someEvent, nil)
	if r := receive(t, got); replayed(genuine) || r.Header.Get("Anvil-Verified") != "true" || r.Header.Get("Anvil-Event-Type") != "invoice.paid" {
		t.Errorf("genuine: %s, arrived with %v", genuine.body, r.Header)
	}
	if again := s.sendAs(stripe, "/", someEvent, forge); !replayed(again) || again.jobID(t) != forged.jobID(t) {
		t.Errorf("forged again: %s", again.body)
	}
	if unsigned := s.sendAs(stripe, "/", "{}", func(r *http.Request) { r.Header.Del("Stripe-Signature") }); unsigned.status != 202 {
		t.Errorf("unsigned: %d %s", unsigned.status, unsigned.body)
	}
	if n := requests("reported", "accepted", "too_old") - before; n != 1 {
		t.Errorf("%v let in that would have been refused, want 1", n)
	}
	if n := requests("reported", "duplicate", "too_old"); n != 1 {
		t.Errorf("%v duplicates that would have been refused, want 1", n)
	}
}

func TestReportOnlyBesideAnotherVerify(t *testing.T) {
	s := newSite(t)
	s.mustLoad("anvil shop {\nverify github "+testSecret+"\nverify hmac "+testSecret+" {\nreport_only\n}\n}", "")
	if r := s.sendAs(as(t, "github", nil), "/", "{}", nil); r.status != 202 {
		t.Errorf("proved by the first: %d", r.status)
	}
	if e := s.stored()[0]; !e.Verified {
		t.Error("a proved webhook is marked as unverified")
	}
}

func TestARepeatedEventIDIsADuplicateThoughSignedAnew(t *testing.T) {
	s := newSite(t)
	s.mustLoad("anvil shop {\nverify stripe "+testSecret+"\n}", "")
	stripe := as(t, "stripe", nil)
	first := s.sendAs(stripe, "/", `{"id":"evt_1","type":"a"}`, nil)
	again := s.sendAs(stripe, "/", `{"id":"evt_1","type":"a","pending_webhooks":2}`, nil)
	if !replayed(again) || again.jobID(t) != first.jobID(t) {
		t.Errorf("the same event: %s", again.body)
	}
	if other := s.sendAs(stripe, "/", `{"id":"evt_2","type":"a"}`, nil); replayed(other) {
		t.Error("another event is a duplicate")
	}
	if e := s.stored(); len(e) != 2 || e[0].ProviderID != "evt_2" || e[0].Type != "a" {
		t.Errorf("stored %+v", e)
	}
}

func TestEventsWithoutAnIDAreNotOne(t *testing.T) {
	s := newSite(t)
	s.mustLoad("anvil shop {\nverify stripe "+testSecret+"\n}", "")
	stripe := as(t, "stripe", nil)
	for _, body := range []string{`{"id":""}`, `{"id":null}`, `{"id":{}}`, `{}`, `[]`, `"text"`, `42`, `null`, ` `, `{`, "\xef\xbb\xbf{}", `{"n":` + strings.Repeat("9", 309) + `,"x":1e400}`} {
		if r := s.sendAs(stripe, "/", body, nil); r.status != 202 || replayed(r) {
			t.Errorf("%q: %d %s", body, r.status, r.body)
		}
		if r := s.sendAs(stripe, "/", body, nil); !replayed(r) {
			t.Errorf("%q again: %s", body, r.body)
		}
	}
}

func TestAnIDIsFoundBehindAByteOrderMark(t *testing.T) {
	s := newSite(t)
	s.mustLoad("anvil shop {\nverify stripe "+testSecret+"\n}", "")
	stripe := as(t, "stripe", nil)
	s.sendAs(stripe, "/", "\xef\xbb\xbf{\"id\":\"evt_1\"}", nil)
	if r := s.sendAs(stripe, "/", `{"id":"evt_1"}`, nil); !replayed(r) {
		t.Errorf("answered %s", r.body)
	}
}

// GitHub's delivery id is not signed: whoever has captured a request can change it.
func TestAnUnsignedIDIsKeptTogetherWithWhatIsSigned(t *testing.T) {
	github := as(t, "github", nil)
	id := func(id string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Del("X-GitHub-Delivery")
			if id != "" {
				r.Header.Set("X-GitHub-Delivery", id)
			}
		}
	}
	for _, c := range []struct {
		name, id, body string
		duplicate      bool
	}{
		{"the same id and another body", "1", `{"a":2}`, true},
		{"another id and the same body", "2", `{"a":1}`, true},
		{"no id and the same body", "", `{"a":1}`, true},
		{"another id and another body", "2", `{"a":2}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			s.mustLoad("anvil shop {\nverify github "+testSecret+"\ndedupe event_id\n}", "")
			s.sendAs(github, "/", `{"a":1}`, id("1"))
			if r := s.sendAs(github, "/", c.body, id(c.id)); replayed(r) != c.duplicate {
				t.Errorf("answered %s", r.body)
			}
		})
	}
}

func TestAnIDAddedToACapturedWebhookDoesNotMakeItNew(t *testing.T) {
	s := newSite(t)
	s.mustLoad("anvil shop {\nverify github "+testSecret+"\ndedupe event_id\n}", "")
	github := as(t, "github", nil)
	s.sendAs(github, "/", "{}", func(r *http.Request) { r.Header.Del("X-GitHub-Delivery") })
	if r := s.sendAs(github, "/", "{}", func(r *http.Request) { r.Header.Set("X-GitHub-Delivery", "1") }); !replayed(r) {
		t.Errorf("answered %s", r.body)
	}
}

func TestAMetaChallengeIsAnsweredAndNotStored(t *testing.T) {
	t.Setenv("ANVIL_VERIFY_TOKEN", "the-verify-token")
	s := newSite(t)
	s.mustLoad("anvil challenged {\nverify meta "+testSecret+" {\nverify_token {env.ANVIL_VERIFY_TOKEN}\n}\n}", "")
	ask := func(query string) reply { return s.do(http.MethodGet, "/hook?"+query, "", nil) }

	before := requests("challenged", "handshake", "")
	r := ask("hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=the-verify-token")
	if r.status != 200 || r.body != "1158201444" || r.header.Get("Content-Type") != "text/plain" || r.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("answered %d %q %v", r.status, r.body, r.header)
	}
	if n := requests("challenged", "handshake", "") - before; n != 1 {
		t.Errorf("counted %v handshakes", n)
	}
	if r := ask("hub.mode=subscribe&hub.challenge=1&hub.verify_token=wrong"); r.status != 403 || r.body != "" {
		t.Errorf("wrong token: %d %q", r.status, r.body)
	}
	if n := requests("challenged", "refused", "handshake"); n != 1 {
		t.Errorf("counted %v refused handshakes", n)
	}
	if r := ask("a=b"); r.status != 405 || r.header.Get("Allow") != "GET, POST" {
		t.Errorf("no challenge: %d %v", r.status, r.header)
	}
	if e := s.stored(); len(e) != 0 {
		t.Errorf("%d events stored", len(e))
	}
}

func TestSignedHandshakesNeedTheSignature(t *testing.T) {
	s := newSite(t)
	s.mustLoad("anvil /slack slack {\nverify slack "+testSecret+"\n}\nanvil /xero xero {\nverify xero "+testSecret+"\n}", "")
	const challenge = `{"type":"url_verification","challenge":"3eZbrw1aB"}`
	if r := s.sendAs(as(t, "slack", nil), "/slack", challenge, nil); r.status != 200 || r.body != "3eZbrw1aB" || r.header.Get("Anvil-Job-Id") != "" {
		t.Errorf("signed: %d %q", r.status, r.body)
	}
	if r := s.sendAs(as(t, "slack", nil), "/slack", challenge, func(r *http.Request) { r.Header.Set("X-Slack-Signature", "v0=00") }); r.status != 401 {
		t.Errorf("not signed: %d %q", r.status, r.body)
	}
	// Xero tests with right and with wrong signatures, and wants 200 and 401 with nothing in them.
	const intent = `{"events":[],"firstEventSequence":0,"lastEventSequence":0,"entropy":"S0m3r4Nd0mt3xt"}`
	if r := s.sendAs(as(t, "xero", nil), "/xero", intent, nil); r.status != 200 || r.body != "" {
		t.Errorf("intent: %d %q", r.status, r.body)
	}
	if r := s.sendAs(as(t, "xero", nil), "/xero", intent, func(r *http.Request) { r.Header.Set("X-Xero-Signature", "AAAA") }); r.status != 401 || r.body != "" {
		t.Errorf("false intent: %d %q", r.status, r.body)
	}
	if e := s.stored(); len(e) != 0 {
		t.Errorf("%d events stored", len(e))
	}
}

func TestAHandshakeNeedsTheSignatureOfItsOwnProvider(t *testing.T) {
	s := newSite(t)
	s.mustLoad("anvil shop {\nverify hmac "+testSecret+"\nverify slack "+testSecret+"\n}", "")
	const challenge = `{"type":"url_verification","challenge":"3eZbrw1aB"}`
	if r := s.sendAs(as(t, "slack", nil), "/", challenge, nil); r.status != 200 || r.body != "3eZbrw1aB" {
		t.Errorf("signed by its provider: %d %q", r.status, r.body)
	}
	if r := s.post(challenge); r.status != 202 || len(s.stored()) != 1 {
		t.Errorf("a webhook of somebody else: %d %q, %d events stored", r.status, r.body, len(s.stored()))
	}
}

func TestAHandshakeThatOneVerifyRefusesIsLeftToTheNext(t *testing.T) {
	s := newSite(t)
	s.mustLoad("anvil shop {\nverify meta "+testSecret+" {\nverify_token the-first-token\n}\nverify meta "+testSecret+"2 {\nverify_token the-second-token\n}\n}", "")
	for token, want := range map[string]int{"the-first-token": 200, "the-second-token": 200, "no-token": 403} {
		if r := s.do(http.MethodGet, "/hook?hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token="+token, "", nil); r.status != want {
			t.Errorf("%s: %d %q, want %d", token, r.status, r.body, want)
		}
	}
}

func TestWithoutASecretYetOnlyTheRegistrationIsAnswered(t *testing.T) {
	s := newSite(t)
	s.mustLoad("anvil shop {\nverify notion\n}", "")
	first := &verify.Request{Method: http.MethodPost, URL: "http://" + s.addr + "/", Header: http.Header{}, Body: []byte(`{"verification_token":"secret_x"}`)}
	if r := s.send(first, nil); r.status != 200 || r.header.Get("Anvil-Job-Id") != "" {
		t.Errorf("registration: %d %q", r.status, r.body)
	}
	if r := s.sendAs(as(t, "notion", nil), "/", someEvent, nil); r.status != 503 || r.header.Get("Retry-After") == "" || !strings.Contains(r.body, "not_ready") {
		t.Errorf("delivery: %d %q %v", r.status, r.body, r.header)
	}
}

func TestEachProviderGetsTheAnswerItNeeds(t *testing.T) {
	s := newSite(t)
	s.mustLoad("anvil /twilio twilio {\nverify twilio "+testSecret+"\n}\nanvil /other other {\nverify twilio "+testSecret+"\nrespond 204\n}", "")
	twilio := as(t, "twilio", nil)
	for range 2 { // the second is a duplicate
		r := s.sendAs(twilio, "/twilio", "{}", nil)
		if r.status != 200 || !strings.HasSuffix(r.body, "<Response></Response>") || r.header.Get("Content-Type") != "text/xml" || r.header.Get("Anvil-Job-Id") == "" {
			t.Errorf("answered %d %q %v", r.status, r.body, r.header)
		}
	}
	if r := s.sendAs(twilio, "/other", "{}", nil); r.status != 204 || r.body != "" || r.header.Get("Anvil-Job-Id") == "" {
		t.Errorf("respond: %d %q %v", r.status, r.body, r.header)
	}
}

func TestAKeyThatCannotBeFetchedIsNotTheSendersFault(t *testing.T) {
	keys := makeKeys(t)
	kinde := as(t, "kinde", nil)
	kinde.keys = verify.SignKeys{Private: keys.private[2]}
	for name, more := range map[string]string{"alone": "", "beside another": "verify github " + testSecret + "\n"} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.mustLoad("anvil shop {\nverify kinde {\njwks_url https://127.0.0.1:1/jwks\n}\n"+more+"}", "")
			if r := s.sendAs(kinde, "/", "{}", nil); r.status != 503 || r.header.Get("Retry-After") == "" {
				t.Errorf("answered %d %q %v", r.status, r.body, r.header)
			}
		})
	}
	t.Run("behind another that it does not match", func(t *testing.T) {
		s := newSite(t)
		s.mustLoad("anvil shop {\nverify github "+testSecret+"\nverify kinde {\njwks_url https://127.0.0.1:1/jwks\n}\n}", "")
		r := s.sendAs(kinde, "/", "{}", func(r *http.Request) { r.Header.Set("X-Hub-Signature-256", sign("another body")) })
		if r.status != 503 || r.header.Get("Retry-After") == "" {
			t.Errorf("answered %d %q %v", r.status, r.body, r.header)
		}
	})
}

func TestThePublicURLIsWhatIsSigned(t *testing.T) {
	twilio := as(t, "twilio", nil)
	for _, c := range []struct {
		name, words, options, base string
		forwarded                  bool
		inner                      string // what a second proxy has added to both headers
		status                     int
	}{
		{name: "as the request came", base: "http://ADDR", status: 200},
		{name: "behind a trusted proxy", options: "servers {\ntrusted_proxies static 127.0.0.1/32\n}", base: "https://pub.example", forwarded: true, status: 200},
		{name: "behind two trusted proxies", options: "servers {\ntrusted_proxies static 127.0.0.1/32\n}", base: "https://pub.example", forwarded: true, inner: ", http", status: 200},
		{name: "forged headers of a stranger", base: "https://pub.example", forwarded: true, status: 401},
		{name: "by public_url", words: "public_url https://pub.example", base: "https://pub.example", status: 200},
		{name: "by public_url with a path", words: "public_url https://pub.example:8443/prefix/", base: "https://pub.example:8443/prefix", status: 200},
		{name: "public_url comes before a proxy's word", words: "public_url https://other.example", options: "servers {\ntrusted_proxies static 127.0.0.1/32\n}", base: "https://pub.example", forwarded: true, status: 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			s.global = c.options
			s.mustLoad("anvil shop {\nverify twilio "+testSecret+"\n"+c.words+"\n}", "")
			path := "/in?b=2&a=1+1%27"
			v := &verify.Request{
				Method: http.MethodPost, URL: strings.ReplaceAll(c.base, "ADDR", s.addr) + path,
				Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, Body: []byte("Body=hi&From=%2B1"),
			}
			if err := verify.Sign("twilio", twilio.keys, nil, v, time.Now()); err != nil {
				t.Fatal(err)
			}
			v.URL = "http://" + s.addr + path
			r := s.send(v, func(r *http.Request) {
				if c.forwarded {
					r.Header.Set("X-Forwarded-Proto", "https"+c.inner)
					r.Header.Set("X-Forwarded-Host", "pub.example"+c.inner)
				}
			})
			if r.status != c.status {
				t.Fatalf("answered %d %q, want %d", r.status, r.body, c.status)
			}
			if c.status == 200 {
				p, err := event.DecodePayload(s.stored()[0].Payload)
				base, _ := url.Parse(strings.ReplaceAll(c.base, "ADDR", s.addr))
				if err != nil || p.Scheme != base.Scheme || p.Host != base.Host || p.URI != path {
					t.Errorf("stored %s %s %s: %v", p.Scheme, p.Host, p.URI, err)
				}
			}
		})
	}
}

func TestSecretsThatAreSentAreNotStored(t *testing.T) {
	const secret = "a-token-that-is-sent-0123456789"
	for _, c := range []struct {
		name, verify, uri, stored string
		header                    http.Header
	}{
		{"a header", "verify token " + secret + " {\nheader X-Token\n}", "/?a=1", "/?a=1", http.Header{"X-Token": {secret}}},
		{"a query parameter", "verify token " + secret + " {\nquery key\n}", "/?a=1&key=" + secret + "&b=%20", "/?a=1&b=%20", nil},
		{"the only query parameter, spelt oddly", "verify token " + secret + " {\nquery key\n}", "/?%6bey=" + secret, "/", nil},
		{"basic authentication", "verify basic user:" + secret, "/", "/", http.Header{"Authorization": {"Basic dXNlcjphLXRva2VuLXRoYXQtaXMtc2VudC0wMTIzNDU2Nzg5"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			upstream, got := upstream(t)
			s.mustLoad("anvil shop {\n"+c.verify+"\ndeliver "+upstream+"\n}", "")
			r := s.send(&verify.Request{Method: http.MethodPost, URL: "http://" + s.addr + c.uri, Header: c.header, Body: []byte("{}")}, func(r *http.Request) {
				if r.Header == nil {
					r.Header = http.Header{}
				}
			})
			if r.status != 202 {
				t.Fatalf("answered %d %s", r.status, r.body)
			}
			if payload := string(s.stored()[0].Payload); strings.Contains(payload, secret) || strings.Contains(payload, "dXNlcjph") {
				t.Errorf("stored %q", payload)
			}
			if arrived := receive(t, got); arrived.RequestURI != c.stored || arrived.Header.Get("X-Token")+arrived.Header.Get("Authorization") != "" {
				t.Errorf("arrived as %s with %v", arrived.RequestURI, arrived.Header)
			}
		})
	}
}

func TestTheMetricTellsWhichSecretIsStillUsed(t *testing.T) {
	s := newSite(t)
	const newer = "newer-secret-0123456789abcdef"
	used := func(n string) float64 {
		return testutil.ToFloat64(secretUsedTotal.WithLabelValues("rotated", "github", n))
	}
	series := func() int { return testutil.CollectAndCount(secretUsedTotal) }
	secretUsedTotal.Reset() // of what other tests left
	s.mustLoad("anvil rotated {\nverify github "+newer+" "+testSecret+"\n}", "")
	if n := series(); n != 2 {
		t.Fatalf("%d series before the first webhook, want one for each secret", n)
	}
	s.sendAs(as(t, "github", nil), "/", "{}", nil)
	if used("1") != 0 || used("2") != 1 {
		t.Errorf("first %v, second %v", used("1"), used("2"))
	}
	s.mustLoad("anvil rotated {\nverify github "+newer+"\n}", "")
	if n := series(); n != 1 {
		t.Errorf("%d series after the second secret went", n)
	}
}

func TestBytesAreProvedAndKeptAsTheyCame(t *testing.T) {
	upstream, got := upstream(t)
	for _, provider := range []string{"github", "stripe", "slack", "shopify", "hmac"} {
		s := newSite(t)
		s.mustLoad("anvil shop {\nverify "+provider+" "+testSecret+"\ndeliver "+upstream+"\n}", "")
		for _, body := range []string{"{ \"b\":1,\n  \"a\" : 2.0 }", "{\"note\":\"ç 😀\"}", "payload=%7B%22a%22%3A1%7D&x=%2B+", "\xff\x00", ""} {
			if r := s.sendAs(as(t, provider, nil), "/", body, nil); r.status >= 300 {
				t.Fatalf("%s %q: %d %s", provider, body, r.status, r.body)
			}
			if b, _ := io.ReadAll(receive(t, got).Body); string(b) != body {
				t.Errorf("%s: %q arrived as %q", provider, body, b)
			}
		}
	}
}

func TestASecondSignatureHeaderIsRefusedInEitherOrder(t *testing.T) {
	s := newSite(t)
	s.mustLoad("anvil shop {\nverify github "+testSecret+"\n}", "")
	github := as(t, "github", nil)
	const bad = "sha256=0000000000000000000000000000000000000000000000000000000000000000"
	for name, change := range map[string]func(h http.Header){
		"bad, good":                func(h http.Header) { h["X-Hub-Signature-256"] = []string{bad, h.Get("X-Hub-Signature-256")} },
		"good, bad":                func(h http.Header) { h["X-Hub-Signature-256"] = []string{h.Get("X-Hub-Signature-256"), bad} },
		"good under another name":  func(h http.Header) { h.Set("X-Signature", h.Get("X-Hub-Signature-256")); h.Del("X-Hub-Signature-256") },
		"empty":                    func(h http.Header) { h.Set("X-Hub-Signature-256", "") },
		"no signature":             func(h http.Header) { h.Del("X-Hub-Signature-256") },
		"10 kB":                    func(h http.Header) { h.Set("X-Hub-Signature-256", strings.Repeat("a", 10_000)) },
		"many bytes per character": func(h http.Header) { h.Set("X-Hub-Signature-256", "sha256=ä😀") },
	} {
		if r := s.sendAs(github, "/", "{}", func(r *http.Request) { change(r.Header) }); r.status != 401 {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	if r := s.sendAs(github, "/", "{}", nil); r.status != 202 {
		t.Errorf("the next good one: %d %s", r.status, r.body)
	}
}

func TestWordsInPlaceOfASecretDoNotSwitchVerificationOff(t *testing.T) {
	for _, secret := range []string{"***", "none", "changeme"} {
		s := newSite(t)
		s.mustLoad("anvil shop {\nverify github "+secret+"\n}", "")
		if r := s.do(http.MethodPost, "/", "{}", func(r *http.Request) { r.Header.Del("X-Signature") }); r.status != 401 {
			t.Errorf("%s: %d %s", secret, r.status, r.body)
		}
	}
}

func TestToleranceBoundsTheSignedTime(t *testing.T) {
	s := newSite(t)
	s.mustLoad("anvil /five five {\nverify stripe "+testSecret+"\n}\nanvil /day day {\nverify stripe "+testSecret+" {\ntolerance 1d\n}\n}", "")
	at := func(path string, offset time.Duration) int {
		v := &verify.Request{Method: http.MethodPost, URL: "http://" + s.addr + path, Header: http.Header{}, Body: []byte(someEvent)}
		if err := verify.Sign("stripe", verify.SignKeys{Secret: testSecret}, nil, v, time.Now().Add(offset)); err != nil {
			t.Fatal(err)
		}
		return s.send(v, nil).status
	}
	for _, c := range []struct {
		path   string
		offset time.Duration
		want   int
	}{
		{"/five", 30 * time.Second, 202},
		{"/five", -301 * time.Second, 401},
		{"/five", time.Hour, 401},
		{"/five", -24 * time.Hour, 401},
		{"/day", -23 * time.Hour, 202},
		{"/day", 23 * time.Hour, 202},
		{"/day", -25 * time.Hour, 401},
	} {
		if got := at(c.path, c.offset); got/100 != c.want/100 {
			t.Errorf("%s signed %s from now: %d, want %d", c.path, c.offset, got, c.want)
		}
	}
}

func TestProvidersWithoutProofAreUnverified(t *testing.T) {
	s := newSite(t)
	s.mustLoad("anvil shop {\nverify strava {\nverify_token tok\n}\n}", "")
	r := s.do(http.MethodPost, "/", `{"object_type":"activity","aspect_type":"create"}`, nil)
	if e := s.stored(); r.status != 200 || len(e) != 1 || e[0].Verified || e[0].Type != "activity:create" {
		t.Errorf("answered %d, stored %+v", r.status, e)
	}
	challenge := s.do(http.MethodGet, "/?hub.mode=subscribe&hub.challenge=15f7d1a91c1f40f8&hub.verify_token=tok", "", nil)
	var answer map[string]string
	if err := json.Unmarshal([]byte(challenge.body), &answer); err != nil || answer["hub.challenge"] != "15f7d1a91c1f40f8" {
		t.Errorf("challenge: %d %q %v", challenge.status, challenge.body, err)
	}
}

// What has no body has its event in the URL.
func TestBodylessWebhooksWithDifferentURLsAreDifferentEvents(t *testing.T) {
	twilio := func(v *verify.Request) error {
		return verify.Sign("twilio", verify.SignKeys{Secret: testSecret}, nil, v, time.Now())
	}
	for _, c := range []struct {
		method, body string
		prove        func(v *verify.Request) error
	}{
		{"POST", "verify none", nil},
		{"POST", "verify none\ndedupe json /id", nil},
		{"POST", "verify token " + testSecret + " {\nheader X-Token\n}", func(v *verify.Request) error { v.Header.Set("X-Token", testSecret); return nil }},
		{"POST", "verify basic me:" + testSecret, func(v *verify.Request) error {
			v.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("me:"+testSecret)))
			return nil
		}},
		{"POST", "verify twilio " + testSecret, twilio},
		{"GET", "verify twilio " + testSecret, twilio},
	} {
		t.Run(c.method+" "+strings.ReplaceAll(c.body, "\n", " "), func(t *testing.T) {
			s := newSite(t)
			s.mustLoad("anvil shop {\n"+c.body+"\n}", "")
			send := func(query string) string {
				t.Helper()
				v := &verify.Request{Method: c.method, URL: "http://" + s.addr + "/in?" + query, Header: http.Header{}}
				if c.prove != nil {
					if err := c.prove(v); err != nil {
						t.Fatal(err)
					}
				}
				return s.send(v, nil).header.Get("Anvil-Job-Id")
			}
			first := send("MessageSid=SM1")
			if again, other := send("MessageSid=SM1"), send("MessageSid=SM2"); first == "" || again != first || other == first {
				t.Errorf("jobs %q and %q of one event, %q of another", first, again, other)
			}
		})
	}
}

// Where a signature covers neither time nor URL, whoever has captured a webhook without a body can send it with any other.
func TestACapturedBodylessWebhookIsNoNewEventAtAnotherURL(t *testing.T) {
	s := newSite(t)
	s.mustLoad("anvil shop {\nverify hmac "+testSecret+"\ndedupe json /id\n}", "")
	first := s.do(http.MethodPost, "/in?id=1", "", nil).jobID(t)
	if forged := s.do(http.MethodPost, "/in?id=2", "", nil).jobID(t); forged != first {
		t.Errorf("jobs %q and %q", first, forged)
	}
}

// Zendesk signs the second and the body, of which GET and DELETE have none.
func TestBodylessWebhooksWithASignedTimeAreToldApartByTimeAndURL(t *testing.T) {
	s := newSite(t)
	s.mustLoad("anvil shop {\nverify zendesk "+testSecret+"\n}", "")
	now := time.Now()
	send := func(query string, at time.Time) string {
		t.Helper()
		v := &verify.Request{Method: http.MethodGet, URL: "http://" + s.addr + "/in?" + query, Header: http.Header{}}
		if err := verify.Sign("zendesk", verify.SignKeys{Secret: testSecret}, nil, v, at); err != nil {
			t.Fatal(err)
		}
		return s.send(v, nil).header.Get("Anvil-Job-Id")
	}
	first := send("ticket=1", now)
	again, other, later := send("ticket=1", now), send("ticket=2", now), send("ticket=1", now.Add(2*time.Second))
	if first == "" || again != first || other == first || later == first || later == other {
		t.Errorf("jobs %q and %q of one event, %q of another at the same time, %q of a later one", first, again, other, later)
	}
}
