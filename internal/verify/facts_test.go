package verify_test

import (
	"strings"
	"testing"

	"github.com/caddy-anvil/anvil/internal/verify"
)

func TestEventFacts(t *testing.T) {
	github := func(typ, id string) *verify.Request {
		return post("{}", "X-GitHub-Event", typ, "X-GitHub-Delivery", id)
	}
	for _, c := range []struct {
		name, provider   string
		options          verify.Options
		request          *verify.Request
		wantType, wantID string
	}{
		{"in headers", "github", nil, github("push", "72d3162e-cc78"), "push", "72d3162e-cc78"},
		{"not there", "github", nil, post("{}"), "", ""},
		{"too long to be an event type", "github", nil, github(strings.Repeat("x", 257), "id"), "", "id"},
		{"as long as believed", "github", nil, github("push", strings.Repeat("x", 256)), "push", strings.Repeat("x", 256)},
		{"not UTF-8", "github", nil, github("push", "\xff"), "push", ""},
		{"an escape of terminals in one character", "github", nil, github("push", "a\u009bb"), "push", ""},
		{"a character that turns the line round", "github", nil, github("push", "a\u202eb"), "push", ""},
		{"letters of any script", "github", nil, github("push", "Zoë 家 #1"), "push", "Zoë 家 #1"},
		{"a control character", "github", nil, github("push", "a\x1bb"), "push", ""},
		{"in the body", "stripe", nil, post(`{"id":"evt_1","type":"invoice.paid"}`), "invoice.paid", "evt_1"},
		{"names match exactly", "stripe", nil, post(`{"id":"evt_1","ID":"evt_2","Id":"evt_3","TYPE":"x"}`), "", "evt_1"},
		{"an escaped name is the name", "stripe", nil, post(`{"\u0069d":"evt_1"}`), "", "evt_1"},
		{"a number", "stripe", nil, post(`{"id":12345678901234567890123}`), "", "12345678901234567890123"},
		{"null", "stripe", nil, post(`{"id":null}`), "", ""},
		{"an object", "stripe", nil, post(`{"id":{}}`), "", ""},
		{"a byte order mark", "stripe", nil, post("\xef\xbb\xbf{\"id\":\"evt_1\"}"), "", "evt_1"},
		{"joined", "paystack", nil, post(`{"event":"charge.success","data":{"id":302961}}`), "charge.success", "charge.success:302961"},
		{"half of a joined one", "paystack", nil, post(`{"event":"charge.success"}`), "charge.success", ""},
		{"the second place", "slack", nil, post(`{"type":"url_verification"}`), "url_verification", ""},
		{"the first place", "slack", nil, post(`{"type":"event_callback","event":{"type":"message"},"event_id":"Ev1"}`), "message", "Ev1"},
		{"an event of a subscription", "zendesk", nil, post(`{"id":"e1","type":"zen:event-type:ticket.created","zendesk_event_version":"2022-11-06"}`), "zen:event-type:ticket.created", "2022-11-06:e1"},
		{"a ticket in a body of the user's making", "zendesk", nil, post(`{"id":"35","type":"ticket"}`), "ticket", ""},
		{"an object and its field", "meta", nil, post(`{"object":"page","entry":[{"changes":[{"field":"feed"}]}]}`), "page:feed", ""},
		{"an object alone", "meta", nil, post(`{"object":"page","entry":[{"messaging":[]}]}`), "page", ""},
		{"an operation", "quickbooks", nil, post(`{"eventNotifications":[{"dataChangeEvent":{"entities":[{"name":"Customer","operation":"Create"}]}}]}`), "Create", ""},
		{"a CloudEvent in an array", "quickbooks", nil, post(`[{"type":"qbo.customer.created.v1"}]`), "qbo.customer.created.v1", ""},
		{"a message and what became of it", "postmark", nil, post(`{"MessageID":"m","RecordType":"Bounce"}`), "Bounce", "m:Bounce"},
		{"a payment and what became of it", "adyen", nil, post(`{"notificationItems":[{"NotificationRequestItem":{"pspReference":"P","eventCode":"AUTHORISATION","success":"true"}}]}`), "AUTHORISATION", "P:AUTHORISATION:true"},
		{"an order and its event", "revolut", nil, post(`{"order_id":"o","event":"ORDER_COMPLETED"}`), "ORDER_COMPLETED", "o:ORDER_COMPLETED"},
		{"an asset and its event", "cloudinary", nil, post(`{"asset_id":"a","notification_type":"upload"}`), "upload", "a:upload"},
		{"an invitee and its event", "calendly", nil, post(`{"event":"invitee.created","payload":{"uri":"u"}}`), "invitee.created", "u:invitee.created"},
		{"an interaction", "discord", nil, post(`{"id":"1","type":2}`), "2", "1"},
		{"in an array", "hubspot", nil, post(`[{"subscriptionType":"contact.creation"}]`), "contact.creation", ""},
		{"in a form", "chargify", nil, post(`event=renewal_success&id=3`, "X-Chargify-Webhook-Id", "7"), "renewal_success", "7"},
		{"in a form within a form", "dropbox-sign", nil, post("json=" + `%7B%22event%22%3A%7B%22event_type%22%3A%22sent%22%2C%22event_hash%22%3A%22ab%22%7D%7D`), "sent", "ab"},
		{"in a multipart form", "mailgun", nil, post("--B\r\nContent-Disposition: form-data; name=\"token\"\r\n\r\ntk\r\n--B--\r\n", "Content-Type", "multipart/form-data; boundary=B"), "", "tk"},
		{"hmac says nothing", "hmac", nil, github("push", "72d3162e-cc78"), "", ""},
		{"hmac with places", "hmac", verify.Options{"event_id": "/data/id", "event_type": "X-Kind"}, post(`{"data":{"id":"d"}}`, "X-Kind", "k"), "k", "d"},
	} {
		t.Run(c.name, func(t *testing.T) {
			secret := secret
			switch c.provider {
			case "postmark":
				secret = "user:password"
			case "discord":
				secret = publicOf(t, testKeys().private[0])
			}
			v := newVerifier(t, c.provider, c.options, secret)
			if typ, id := v.EventFacts(c.request); typ != c.wantType || id != c.wantID {
				t.Errorf("got %q, %q, want %q, %q", typ, id, c.wantType, c.wantID)
			}
		})
	}
}

// No body may stop the reader of ids; the gateway does not judge JSON.
func TestOddBodiesHaveNoFactsAndDoNoHarm(t *testing.T) {
	deep := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)
	for _, body := range []string{`"text"`, `42`, `null`, `[]`, `{}`, ` `, `{`, ``, "\x00", `{"id":` + strings.Repeat("9", 309) + `}`, `{"id":1e400}`, deep, `{"id":"` + strings.Repeat("x", 300) + `"}`} {
		for _, provider := range []string{"stripe", "github", "mailgun", "adyen", "microsoft-graph", "figma", "paymob", "aws-sns"} {
			secret, o := secret, verify.Options(nil)
			if odd, ok := oddSecrets[provider]; ok {
				secret = odd[0]
			}
			if provider == "aws-sns" {
				o = verify.Options{"certificate": testKeys().certificate}
			}
			v := newVerifier(t, provider, o, secret)
			r := post(body)
			if v.Verify(t.Context(), r, someTime).OK {
				t.Errorf("%s accepts %.20q", provider, body)
			}
			v.EventFacts(r)
			shake(t, v, r, someTime)
			v.Explain(t.Context(), r, someTime, []string{"previous-secret"})
		}
		r := signedPost(t, "github", secret, body)
		if got := newVerifier(t, "github", nil, secret).Verify(t.Context(), r, someTime); !got.OK {
			t.Errorf("github refuses %.20q: %s", body, got.Reason)
		}
	}
}

func TestSecretsThatAreSentAreNamed(t *testing.T) {
	for _, c := range []struct {
		provider string
		options  verify.Options
		secret   string
		headers  string
		query    string
		body     bool
	}{
		{provider: "github"},
		{provider: "stripe"},
		{provider: "gitlab", headers: "X-Gitlab-Token"},
		{provider: "gitlab", secret: oddSecrets["gitlab"][0], headers: "X-Gitlab-Token"}, // which may come beside the signature
		{provider: "telegram", headers: "X-Telegram-Bot-Api-Secret-Token"},
		{provider: "huggingface", headers: "X-Webhook-Secret", query: "secret"},
		{provider: "token", options: verify.Options{"header": "x-my-token"}, headers: "X-My-Token"},
		{provider: "token", options: verify.Options{"query": "key"}, query: "key"},
		{provider: "basic", secret: "user:password", headers: "Authorization"},
		{provider: "chargebee", secret: "user:password", headers: "Authorization"},
		{provider: "mailchimp", query: "secret"},
		{provider: "figma", body: true},
		{provider: "vonage", headers: "Authorization"},
	} {
		got := newVerifier(t, c.provider, c.options, orElse(c.secret, secret)).Carries()
		if strings.Join(got.Headers, " ") != c.headers || strings.Join(got.Query, " ") != c.query || got.Body != c.body {
			t.Errorf("%s %v: got %+v", c.provider, c.options, got)
		}
	}
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func TestRequestsThatLackAHeaderNeedNotBeRead(t *testing.T) {
	for _, c := range []struct {
		provider string
		request  *verify.Request
		want     bool
	}{
		{"github", post("{}"), true},
		{"github", post("{}", "X-Hub-Signature-256", "x"), false},
		{"slack", post("{}", "X-Slack-Signature", "x"), true},
		{"slack", post("{}", "X-Slack-Signature", "x", "X-Slack-Request-Timestamp", "x"), false},
		{"asana", post("{}"), true},
		{"asana", post("", "X-Hook-Secret", "s"), false},
		{"notion", post("{}"), false}, // the first request is known by its body
		{"mailgun", post("{}"), false},
		{"pandadoc", post("{}"), false},
		{"dropbox", get("challenge=x"), false},
		{"github", get("challenge=x"), true},
	} {
		if got := newVerifier(t, c.provider, nil, secret).Lacks(c.request); got != c.want {
			t.Errorf("%s %s %v: got %v", c.provider, c.request.Method, c.request.Header, got)
		}
	}
}

func TestRequires(t *testing.T) {
	for provider, want := range map[string]string{
		"github": "X-Hub-Signature-256", "hmac": "X-Signature", "slack": "X-Slack-Signature X-Slack-Request-Timestamp",
		"standard-webhooks": "Webhook-Signature Webhook-Timestamp Webhook-Id", "svix": "", "basic": "Authorization", "mailgun": "",
	} {
		secret := secret
		if provider == "basic" {
			secret = "user:password"
		}
		if got := strings.Join(newVerifier(t, provider, nil, secret).Requires(), " "); got != want {
			t.Errorf("%s: got %q, want %q", provider, got, want)
		}
	}
}

// A captured request with a new id outside the signature must not look like another event.
func TestTheSignedHashIsTheSameForAReplayWithAnotherID(t *testing.T) {
	for _, provider := range []string{"github", "shopify", "stripe", "twilio", "discord", "qstash", "mailgun", "plaid", "svix", "persona"} {
		p, _ := verify.Lookup(provider)
		g, _ := makeGenuine(t, p)
		hash := func(r *verify.Request) [32]byte {
			return g.verifier.SignedHash(r, g.verifier.Verify(t.Context(), r, someTime), someTime)
		}
		again := g.clone()
		again.Header.Set("X-GitHub-Delivery", "another")
		again.Header.Set("X-Shopify-Event-Id", "another")
		if hash(g.request) != hash(again) {
			t.Errorf("%s: another hash", provider)
		}
		if a, b := g.verifier.Verify(t.Context(), g.request, someTime), g.verifier.Verify(t.Context(), again, someTime); a != b || a.Signature == "" {
			t.Errorf("%s: got %+v and %+v", provider, a, b)
		}
	}
	p, _ := verify.Lookup("github")
	g, _ := makeGenuine(t, p)
	other := signedPost(t, "github", g.secret, "another body")
	if g.verifier.SignedHash(other, g.verifier.Verify(t.Context(), other, someTime), someTime) == g.verifier.SignedHash(g.request, g.verifier.Verify(t.Context(), g.request, someTime), someTime) {
		t.Error("two bodies have one hash")
	}
}
