package verify_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/verify"
)

func TestMailgunSignsInJSONFormsAndMultipartForms(t *testing.T) {
	v := newVerifier(t, "mailgun", nil, secret)
	token, ts := "a8ce0edb2dd8", strconv.FormatInt(someTime.Unix(), 10)
	sig := sign(secret, ts+token)
	form := url.Values{"timestamp": {ts}, "token": {token}, "signature": {sig}, "event": {"opened"}}
	var multi strings.Builder
	for name, values := range form {
		fmt.Fprintf(&multi, "--B\r\nContent-Disposition: form-data; name=%q\r\n\r\n%s\r\n", name, values[0])
	}
	// An attached file is no field, whatever it is called.
	multi.WriteString("--B\r\nContent-Disposition: form-data; name=\"token\"; filename=\"a.txt\"\r\n\r\nhello\r\n--B--\r\n")
	requests := map[string]*verify.Request{
		"json":      post(`{"signature":{"timestamp":"` + ts + `","token":"` + token + `","signature":"` + sig + `"},"event-data":{"event":"opened","id":"e-1"}}`),
		"form":      post(form.Encode(), "Content-Type", "application/x-www-form-urlencoded"),
		"multipart": post(multi.String(), "Content-Type", "multipart/form-data; boundary=B"),
	}
	for name, r := range requests {
		verdict := v.Verify(t.Context(), r, someTime)
		if !verdict.OK {
			t.Errorf("%s: refused: %s", name, verdict.Reason)
		}
		// Any event can be put beside the signed fields, so they must be known again whatever the body is.
		if v.SignedHash(r, verdict, someTime) != sha256.Sum256([]byte(ts+token)) {
			t.Errorf("%s: the signed hash covers something else", name)
		}
		changed := *r
		changed.Body = []byte(strings.Replace(string(r.Body), token, "a8ce0edb2dd9", 1))
		if v.Verify(t.Context(), &changed, someTime).OK {
			t.Errorf("%s: another token is accepted", name)
		}
	}
	double := post(form.Encode() + "&token=x")
	if v.Verify(t.Context(), double, someTime).OK {
		t.Error("a second token is accepted")
	}
}

func TestMultipartFormsOfFewerThanAThousandParts(t *testing.T) {
	v := newVerifier(t, "mailgun", nil, secret)
	ts := strconv.FormatInt(someTime.Unix(), 10)
	fields := map[string]string{"timestamp": ts, "token": "tk", "signature": sign(secret, ts+"tk")}
	for parts, want := range map[int]bool{999: true, 1000: false} {
		var b strings.Builder
		for name, value := range fields {
			fmt.Fprintf(&b, "--B\r\nContent-Disposition: form-data; name=%q\r\n\r\n%s\r\n", name, value)
		}
		b.WriteString(strings.Repeat("--B\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n\r\n", parts-len(fields)) + "--B--\r\n")
		if got := v.Verify(t.Context(), post(b.String(), "Content-Type", "multipart/form-data; boundary=B"), someTime); got.OK != want {
			t.Errorf("%d parts: got %+v", parts, got)
		}
	}
}

func TestAFormOfPaddleClassicHasEachFieldOnce(t *testing.T) {
	p, _ := verify.Lookup("paddle-classic")
	g, _ := makeGenuine(t, p)
	for _, more := range []string{"&alert_name=x", "&%61lert_name=test", "&p_signature=x"} {
		r := g.clone()
		r.Body = append(r.Body, more...)
		if got := g.verifier.Verify(t.Context(), r, someTime); got.Reason != verify.ReasonRepeated {
			t.Errorf("%s: got %+v", more, got)
		}
	}
}

func TestAllItemsOfAnAdyenBatchMustBeGenuine(t *testing.T) {
	p, _ := verify.Lookup("adyen")
	g, _ := makeGenuine(t, p)
	var batch struct {
		Live  string            `json:"live"`
		Items []json.RawMessage `json:"notificationItems"`
	}
	if err := json.Unmarshal(g.request.Body, &batch); err != nil {
		t.Fatal(err)
	}
	forged := json.RawMessage(strings.Replace(string(batch.Items[0]), `"success":"true"`, `"success":"false"`, 1))
	for _, c := range []struct {
		items []json.RawMessage
		ok    bool
	}{
		{[]json.RawMessage{batch.Items[0], batch.Items[0]}, true},
		{[]json.RawMessage{batch.Items[0], forged}, false},
		{[]json.RawMessage{forged, batch.Items[0]}, false},
		{[]json.RawMessage{}, false},
		{[]json.RawMessage{batch.Items[0], []byte(`{}`)}, false},
	} {
		body, err := json.Marshal(map[string]any{"live": "false", "notificationItems": c.items})
		if err != nil {
			t.Fatal(err)
		}
		if got := g.verifier.Verify(t.Context(), post(string(body)), someTime); got.OK != c.ok {
			t.Errorf("%d items: got %+v, want OK %v", len(c.items), got, c.ok)
		}
	}
}

func TestAllItemsOfAGraphNotificationMustHaveTheClientState(t *testing.T) {
	v := newVerifier(t, "microsoft-graph", nil, secret)
	for body, ok := range map[string]bool{
		`{"value":[{"clientState":"` + secret + `"},{"clientState":"` + secret + `"}]}`: true,
		`{"value":[{"clientState":"` + secret + `"},{"clientState":"x"}]}`:              false,
		`{"value":[{"clientState":"x"},{"clientState":"` + secret + `"}]}`:              false,
		`{"value":[{"clientState":"` + secret + `"},{}]}`:                               false,
		`{"value":[]}`: false,
		`{"value":{"clientState":"` + secret + `"}}`: false,
		`{}`: false,
	} {
		if got := v.Verify(t.Context(), post(body), someTime); got.OK != ok {
			t.Errorf("%s: got %+v", body, got)
		}
	}
}

func TestAFormOfGiteaHoldsNothingButThePayload(t *testing.T) {
	v := newVerifier(t, "gitea", nil, secret)
	payload := `{"a":"b c"}`
	header := sign(secret, payload)
	for body, ok := range map[string]bool{
		payload:                               true,
		"payload=" + url.QueryEscape(payload): true,
		"payload=" + url.QueryEscape(payload) + "&x=1":  false,
		"x=1&payload=" + url.QueryEscape(payload):       false,
		"payload=x&payload=" + url.QueryEscape(payload): false,
	} {
		if got := v.Verify(t.Context(), post(body, "X-Gitea-Signature", header), someTime); got.OK != ok {
			t.Errorf("%s: got %+v", body, got)
		}
	}
}

func TestGiteaMaySendItsPayloadInTheQuery(t *testing.T) {
	v := newVerifier(t, "gitea", nil, secret)
	payload := `{"a":"b c"}`
	query := "payload=" + url.QueryEscape(payload)
	for q, ok := range map[string]bool{
		query:                                true,
		"own=1&" + query:                     true,
		"":                                   false,
		"payload=":                           false,
		"payload=x":                          false,
		query + "&payload=x":                 false,
		"payload=x&" + query:                 false,
		url.QueryEscape(payload):             false,
		"Payload=" + query[len("payload="):]: false,
	} {
		r := get(q)
		r.Header.Set("X-Gitea-Signature", sign(secret, payload))
		if got := v.Verify(t.Context(), r, someTime); got.OK != ok {
			t.Errorf("%s: got %+v", q, got)
		}
	}
}

func TestDropboxSignWithTwoEventsIsRefused(t *testing.T) {
	p, _ := verify.Lookup("dropbox-sign")
	g, _ := makeGenuine(t, p)
	r := g.clone()
	r.Body = append(r.Body, "&json=%7B%7D"...)
	if got := g.verifier.Verify(t.Context(), r, someTime); got.OK {
		t.Errorf("got %+v", got)
	}
}

func TestHook0CoversTheHeadersThatItNames(t *testing.T) {
	v := newVerifier(t, "hook0", nil, secret)
	ts := strconv.FormatInt(someTime.Unix(), 10)
	v1 := sign(secret, ts+".x-event-id x-event-type.id-1.paid."+body)
	v0 := sign(secret, ts+"."+body)
	for _, c := range []struct {
		name, header string
		id           []string
		want         verify.Reason
	}{
		{"v1", "t=" + ts + ",h=x-event-id x-event-type,v1=" + v1, []string{"id-1"}, ""},
		{"v0", "t=" + ts + ",v0=" + v0, nil, ""},
		{"both, v1 wrong", "t=" + ts + ",v0=" + v0 + ",h=x-event-id x-event-type,v1=" + strings.Repeat("0", 64), []string{"id-1"}, verify.ReasonNoMatch},
		{"another id", "t=" + ts + ",h=x-event-id x-event-type,v1=" + v1, []string{"id-2"}, verify.ReasonNoMatch},
		{"no id", "t=" + ts + ",h=x-event-id x-event-type,v1=" + v1, nil, verify.ReasonMissing},
		{"two ids", "t=" + ts + ",h=x-event-id x-event-type,v1=" + v1, []string{"id-1", "id-1"}, verify.ReasonRepeated},
		{"two times", "t=" + ts + ",t=" + ts + ",v0=" + v0, nil, verify.ReasonMalformed},
		{"no time", "v0=" + v0, nil, verify.ReasonMalformed},
		{"another version", "t=" + ts + ",v2=" + v0, nil, verify.ReasonUnsupported},
	} {
		r := post(body, "X-Hook0-Signature", c.header, "X-Event-Type", "paid")
		if c.id != nil {
			r.Header["X-Event-Id"] = c.id
		}
		if got := v.Verify(t.Context(), r, someTime); got.Reason != c.want {
			t.Errorf("%s: got %+v, want %q", c.name, got, c.want)
		}
	}
}

// Each mention would put the header's value into the message once more, so that a small request makes a huge one.
func TestAHeaderThatIsNamedTwiceAsSignedIsRefused(t *testing.T) {
	ts, ms := strconv.FormatInt(someTime.Unix(), 10), strconv.FormatInt(someTime.UnixMilli(), 10)
	long := strings.Repeat("a", 64)
	for _, c := range []struct {
		provider, secret, names string
		request                 func(names string) *verify.Request
		want                    verify.Reason
	}{
		{"hook0", secret, "x-a", func(names string) *verify.Request {
			return post(body, "X-Hook0-Signature", "t="+ts+",h="+names+",v1="+sign(secret, ts+"."+names+".v."+body))
		}, ""},
		{"hook0", secret, "x-a X-A", func(names string) *verify.Request {
			return post(body, "X-Hook0-Signature", "t="+ts+",h="+names+",v1="+sign(secret, ts+"."+names+".v.v."+body))
		}, verify.ReasonMalformed},
		{"contentful", long, "x-contentful-timestamp,x-a", func(names string) *verify.Request {
			return post(body, "X-Contentful-Signed-Headers", names, "X-Contentful-Timestamp", ms,
				"X-Contentful-Signature", sign(long, "POST\n/in\nx-a:v;x-contentful-timestamp:"+ms+"\n"+body))
		}, ""},
		{"contentful", long, "x-contentful-timestamp,x-a,X-A", func(names string) *verify.Request {
			return post(body, "X-Contentful-Signed-Headers", names, "X-Contentful-Timestamp", ms,
				"X-Contentful-Signature", sign(long, "POST\n/in\nx-a:v;x-a:v;x-contentful-timestamp:"+ms+"\n"+body))
		}, verify.ReasonMalformed},
	} {
		r := c.request(c.names)
		r.Header.Set("X-A", "v")
		if got := newVerifier(t, c.provider, nil, c.secret).Verify(t.Context(), r, someTime); got.Reason != c.want {
			t.Errorf("%s %s: got %+v, want %q", c.provider, c.names, got, c.want)
		}
	}
}

func TestCloudinaryTakesOneAlgorithmIfTold(t *testing.T) {
	p, _ := verify.Lookup("cloudinary")
	g, _ := makeGenuine(t, p) // with SHA-1
	if !newVerifier(t, "cloudinary", verify.Options{"algorithm": "sha1"}, g.secret).Verify(t.Context(), g.request, someTime).OK {
		t.Error("sha1 is refused")
	}
	if newVerifier(t, "cloudinary", verify.Options{"algorithm": "sha256"}, g.secret).Verify(t.Context(), g.request, someTime).OK {
		t.Error("sha1 is accepted where sha256 is demanded")
	}
	if _, err := verify.New("cloudinary", []string{secret}, verify.Options{"algorithm": "sha512"}, nil); err == nil {
		t.Error("sha512 is none of Cloudinary's")
	}
}

func TestWooCommerceDecodesEntitiesAsWordPressDoes(t *testing.T) {
	for stored, used := range map[string]string{
		"a&amp;b":       "a&b",
		"&amp;lt;":      "&lt;",
		"&#39;&#0039;":  "''",
		"&#X27;&#x0027": "'&#x0027",
		"&#x26;&#038;":  "&&",
		"&#x3c;&apos;":  "&#x3c;&apos;",
		"&copy;&#34;":   `&copy;"`,
		"&#60;&#062;":   "<>",
		"&&#;&#x;":      "&&#;&#x;",
	} {
		v := newVerifier(t, "woocommerce", nil, stored)
		mac := hmac.New(sha256.New, []byte(used))
		mac.Write([]byte(body))
		if got := check(v, "X-Wc-Webhook-Signature", base64.StdEncoding.EncodeToString(mac.Sum(nil)), body); !got.OK {
			t.Errorf("%s is not taken as %s", stored, used)
		}
	}
}

func TestEbayAnswersChallengesBeforeThereIsAKey(t *testing.T) {
	token := strings.Repeat("t", 40)
	v := newVerifier(t, "ebay", nil, token)
	want := sha256.Sum256([]byte("code" + token + "https://hooks.example.test/in"))
	if a, ok := shake(t, v, get("challenge_code=code"), someTime); !ok || a.Body != `{"challengeResponse":"`+hex.EncodeToString(want[:])+`"}` {
		t.Errorf("got %+v, %v", a, ok)
	}
	p, _ := verify.Lookup("ebay")
	g, _ := makeGenuine(t, p)
	if got := v.Verify(t.Context(), g.request, someTime); got.Reason != verify.ReasonNoSecret {
		t.Errorf("a delivery: got %+v", got)
	}
	both := newVerifier(t, "ebay", nil, token, g.secret)
	if got := both.Verify(t.Context(), g.request, someTime); !got.OK || got.Secret != 1 {
		t.Errorf("a delivery, with both: got %+v", got)
	}
}

func TestBasicAuthSplitsAtTheFirstColon(t *testing.T) {
	v := newVerifier(t, "basic", nil, "user:pa:ss é")
	for given, ok := range map[string]bool{
		"Basic " + base64.StdEncoding.EncodeToString([]byte("user:pa:ss é")):   true,
		"basic " + base64.StdEncoding.EncodeToString([]byte("user:pa:ss é")):   true,
		"Basic " + base64.StdEncoding.EncodeToString([]byte("user:pa")):        false,
		"Basic " + base64.StdEncoding.EncodeToString([]byte("user:pa:ss é\n")): false,
		"Bearer " + base64.StdEncoding.EncodeToString([]byte("user:pa:ss é")):  false,
		"Basic user:pa:ss é": false,
		"Basic":              false,
	} {
		r := &verify.Request{Header: http.Header{"Authorization": {given}}}
		if got := v.Verify(t.Context(), r, someTime); got.OK != ok {
			t.Errorf("%s: got %+v", given, got)
		}
	}
}

func TestGenericTokens(t *testing.T) {
	for _, c := range []struct {
		name    string
		options verify.Options
		header  http.Header
		url     string
		want    verify.Reason
	}{
		{"a bearer token", nil, http.Header{"Authorization": {"Bearer " + secret}}, "", ""},
		{"bearer in lower case", nil, http.Header{"Authorization": {"bearer " + secret}}, "", ""},
		{"a bare token", nil, http.Header{"Authorization": {secret}}, "", ""},
		{"a prefix of it", nil, http.Header{"Authorization": {secret[:15]}}, "", verify.ReasonNoMatch},
		{"more than it", nil, http.Header{"Authorization": {secret + " "}}, "", verify.ReasonNoMatch},
		{"twice", nil, http.Header{"Authorization": {secret, secret}}, "", verify.ReasonRepeated},
		{"a header", verify.Options{"header": "x-token"}, http.Header{"X-Token": {secret}}, "", ""},
		{"another header", verify.Options{"header": "x-token"}, http.Header{"Authorization": {secret}}, "", verify.ReasonMissing},
		{"a parameter", verify.Options{"query": "key"}, nil, "https://h.test/?a=b&key=0123456789%61bcdef", ""},
		{"a parameter twice", verify.Options{"query": "key"}, nil, "https://h.test/?key=" + secret + "&key=" + secret, verify.ReasonRepeated},
		{"a parameter in the fragment", verify.Options{"query": "key"}, nil, "https://h.test/#?key=" + secret, verify.ReasonMissing},
		{"a header or a parameter", verify.Options{"header": "x-token", "query": "key"}, nil, "https://h.test/?key=" + secret, ""},
	} {
		if got := newVerifier(t, "token", c.options, secret).Verify(t.Context(), &verify.Request{Header: c.header, URL: c.url}, someTime); got.Reason != c.want {
			t.Errorf("%s: got %+v, want %q", c.name, got, c.want)
		}
	}
}

// Who bounds the past to seconds has good clocks.
func TestNoMoreIsAllowedAheadThanAgo(t *testing.T) {
	p, _ := verify.Lookup("paddle")
	g, _ := makeGenuine(t, p)
	for ahead, want := range map[time.Duration]verify.Reason{5 * time.Second: "", 6 * time.Second: verify.ReasonTooNew} {
		if got := g.verifier.Verify(t.Context(), g.request, someTime.Add(-ahead)); got.Reason != want {
			t.Errorf("%s ahead: got %+v, want %q", ahead, got, want)
		}
	}
}

func TestOldButWellSignedRequestsAreRefused(t *testing.T) {
	p, _ := verify.Lookup("stripe")
	g, _ := makeGenuine(t, p)
	for _, age := range []time.Duration{301 * time.Second, 86400 * time.Second, 250 * 365 * 24 * time.Hour} {
		if got := g.verifier.Verify(t.Context(), g.request, someTime.Add(age)); got.Reason != verify.ReasonTooOld {
			t.Errorf("%v old: got %+v", age, got)
		}
	}
}
