package anvil

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-anvil/anvil/internal/verify"
)

// mailgunBody is an event beside the signature of another one.
func mailgunBody(t *testing.T, signature json.RawMessage, id string) []byte {
	t.Helper()
	body, err := json.Marshal(map[string]any{"signature": signature, "event-data": map[string]string{"id": id, "event": "delivered"}})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// Mailgun signs a time and a token, and nothing of the event.
func TestATokenIsAcceptedOnceWhateverStandsBesideIt(t *testing.T) {
	for _, rule := range []string{"", "dedupe body", "dedupe off", "dedupe event_id", "dedupe json /event-data/id"} {
		t.Run(rule, func(t *testing.T) {
			s := newSite(t)
			s.mustLoad("anvil shop {\nverify mailgun "+testSecret+"\n"+rule+"\n}", "")
			sign := func() json.RawMessage {
				r := &verify.Request{Method: http.MethodPost, URL: "http://" + s.addr + "/", Header: http.Header{}, Body: []byte("{}")}
				if err := verify.Sign("mailgun", verify.SignKeys{Secret: testSecret}, nil, r, time.Now()); err != nil {
					t.Fatal(err)
				}
				var signed struct {
					Signature json.RawMessage `json:"signature"`
				}
				if err := json.Unmarshal(r.Body, &signed); err != nil {
					t.Fatal(err)
				}
				return signed.Signature
			}
			send := func(signature json.RawMessage, id string) reply {
				return s.send(&verify.Request{Method: http.MethodPost, URL: "http://" + s.addr + "/", Header: http.Header{}, Body: mailgunBody(t, signature, id)}, nil)
			}
			captured := sign()
			if r := send(captured, "1"); r.status != 202 || replayed(r) {
				t.Fatalf("genuine: %d %s", r.status, r.body)
			}
			if r := send(captured, "forged"); !replayed(r) {
				t.Errorf("another event beside a captured token: %d %s", r.status, r.body)
			}
			if n := len(s.stored()); n != 1 {
				t.Errorf("%d events stored", n)
			}
		})
	}
}

// What is signed there are decoded values, so that a captured body can be spelt in other ways.
func TestABodySpeltAnotherWayIsARepeat(t *testing.T) {
	const form = "application/x-www-form-urlencoded"
	for _, c := range []struct{ provider, secret, body, respelt, other string }{
		{"twilio", testSecret, "MessageSid=SM1&Body=hi", "Body=h%69&MessageSid=SM1", "MessageSid=SM2&Body=hi"},
		{"mandrill", testSecret, "mandrill_events=%5B1%5D", "mandrill_events=%5b1%5D", "mandrill_events=%5B2%5D"},
		{"gitea", testSecret, "payload=%7B%22a%22%3A1%7D", "payload=%7b%22a%22%3A1%7d", "payload=%7B%22a%22%3A2%7D"},
		{"forgejo", testSecret, "payload=%7B%22a%22%3A1%7D", "payload=%7b%22a%22%3A1%7d", "payload=%7B%22a%22%3A2%7D"},
		{"braintree", "public:" + testSecret, "bt_payload=PG4%2BMTwvbj4", "x=1&bt_payload=PG4%2bMTwvbj4", "bt_payload=PG4%2BMjwvbj4"},
		{"plivo", testSecret, "CallUUID=1&Event=Hangup", "Event=Hangu%70&CallUUID=1", "CallUUID=2&Event=Hangup"},
	} {
		t.Run(c.provider, func(t *testing.T) {
			s := newSite(t)
			s.mustLoad("anvil shop {\nverify "+c.provider+" "+c.secret+"\n}", "")
			sign := func(body string) *verify.Request {
				r := &verify.Request{Method: http.MethodPost, URL: "http://" + s.addr + "/", Header: http.Header{"Content-Type": {form}}, Body: []byte(body)}
				if err := verify.Sign(c.provider, verify.SignKeys{Secret: c.secret}, nil, r, time.Now()); err != nil {
					t.Fatal(err)
				}
				if strings.HasPrefix(body, "payload=") {
					// The JSON text in the form is signed.
					text, _ := url.QueryUnescape(strings.TrimPrefix(body, "payload="))
					r.Body = []byte(text)
					if err := verify.Sign(c.provider, verify.SignKeys{Secret: c.secret}, nil, r, time.Now()); err != nil {
						t.Fatal(err)
					}
					r.Body = []byte(body)
				}
				return r
			}
			captured := sign(c.body)
			if r := s.send(captured, nil); r.status >= 300 || r.header.Get("Anvil-Job-Id") == "" {
				t.Fatalf("genuine: %d %s", r.status, r.body)
			}
			again := *captured
			again.Body = []byte(strings.Replace(string(captured.Body), c.body, c.respelt, 1))
			if string(again.Body) == string(captured.Body) {
				t.Fatalf("the signer changed the body to %q", again.Body)
			}
			if r := s.send(&again, nil); r.status >= 300 || len(s.stored()) != 1 {
				t.Errorf("spelt another way: %d %s, %d events stored", r.status, r.body, len(s.stored()))
			}
			if r := s.send(sign(c.other), nil); r.status >= 300 || len(s.stored()) != 2 {
				t.Errorf("another event: %d %s, %d events stored", r.status, r.body, len(s.stored()))
			}
		})
	}
}

func TestEqualBodiesAreDifferentEventsWhereTheProviderSaysNoMore(t *testing.T) {
	for _, c := range []struct{ verify, provider, body string }{
		{"dropbox " + testSecret, "dropbox", `{"list_folder":{"accounts":["a"]}}`},
		{"mollie_legacy", "mollie-legacy", "id=tr_1"},
		{"sharepoint " + testSecret, "sharepoint", `{"value":[{"clientState":"` + testSecret + `","resource":"r"}]}`},
		{"microsoft_graph " + testSecret, "microsoft-graph", `{"value":[{"clientState":"` + testSecret + `","changeType":"updated"}]}`},
	} {
		for rule, want := range map[string]int{"": 2, "dedupe body": 1, "dedupe {\nttl 1m\n}": 1} {
			t.Run(fmt.Sprint(c.provider, " ", rule), func(t *testing.T) {
				s := newSite(t)
				s.mustLoad("anvil shop {\nverify "+c.verify+"\n"+rule+"\n}", "")
				for range 2 {
					if r := s.sendAs(as(t, c.provider, nil), "/", c.body, nil); r.status >= 300 {
						t.Fatalf("answered %d %s", r.status, r.body)
					}
				}
				if n := len(s.stored()); n != want {
					t.Errorf("%d events stored, want %d", n, want)
				}
			})
		}
	}
}

func TestOffMeansThatRepeatsAreWelcome(t *testing.T) {
	s := newSite(t)
	s.mustLoad("anvil shop {\nverify gitea "+testSecret+"\ndedupe off\n}", "")
	for range 2 {
		s.sendAs(as(t, "gitea", nil), "/", someEvent, nil)
	}
	if n := len(s.stored()); n != 2 {
		t.Errorf("%d events stored", n)
	}
}

// Zendesk's triggers have a body of the user's making, where /id is that of a ticket.
func TestTwoChangesOfATicketAreTwoEvents(t *testing.T) {
	s := newSite(t)
	s.mustLoad("anvil shop {\nverify zendesk "+testSecret+"\n}", "")
	for _, body := range []string{`{"id":35,"status":"open"}`, `{"id":35,"status":"solved"}`} {
		if r := s.sendAs(as(t, "zendesk", nil), "/", body, nil); r.status != 202 || replayed(r) {
			t.Errorf("answered %d %s", r.status, r.body)
		}
	}
}

// One charge can fail twice.
func TestTwoAttemptsAtAChargeAreTwoEvents(t *testing.T) {
	s := newSite(t)
	s.mustLoad("anvil shop {\nverify paystack "+testSecret+"\n}", "")
	for _, body := range []string{`{"event":"charge.failed","data":{"id":1,"at":1}}`, `{"event":"charge.failed","data":{"id":1,"at":2}}`} {
		if r := s.sendAs(as(t, "paystack", nil), "/", body, nil); r.status != 200 || replayed(r) {
			t.Errorf("answered %d %s", r.status, r.body)
		}
	}
	if n := len(s.stored()); n != 2 {
		t.Errorf("%d events stored", n)
	}
}

// A hub that gets anything but 2xx takes the subscriber for broken; a forged webhook is not its fault.
func TestAForgedWebSubWebhookIsDroppedWithSuccess(t *testing.T) {
	s := newSite(t)
	s.mustLoad("anvil shop {\nverify websub "+testSecret+"\n}", "")
	for name, value := range map[string]string{"wrong": "sha256=" + strings.Repeat("0", 64), "unknown": "md5=00", "missing": ""} {
		h := http.Header{"X-Hub-Signature": {value}}
		if value == "" {
			h = http.Header{}
		}
		r := s.send(&verify.Request{Method: http.MethodPost, URL: "http://" + s.addr + "/", Header: h, Body: []byte("<feed/>")}, nil)
		if r.status != 202 || r.body != "" || r.header.Get("Anvil-Job-Id") != "" {
			t.Errorf("%s: %d %q %v", name, r.status, r.body, r.header)
		}
	}
	if n := len(s.stored()); n != 0 {
		t.Errorf("%d events stored", n)
	}
}

func TestASecretInTheBodyIsToldAtLoad(t *testing.T) {
	for provider, want := range map[string]int{"figma": 1, "telegram": 0} {
		core, logs := observer.New(zapcore.WarnLevel)
		c := &SourceConfig{Source: "shop", Verify: []VerifyConfig{{Provider: provider, Secrets: []string{testSecret}}}}
		if _, err := newSource(c, 1, zap.New(core)); err != nil {
			t.Fatal(err)
		}
		if n := logs.FilterMessageSnippet("secret in the body").Len(); n != want {
			t.Errorf("%s: logged %v", provider, logs.All())
		}
	}
}
