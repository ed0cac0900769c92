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

	"github.com/golang-jwt/jwt/v5"

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
	multi.WriteString("--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\nhello\r\n--B--\r\n")
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

// bearer makes a request with a JWT of its own.
func bearer(t *testing.T, method jwt.SigningMethod, key any, claims jwt.MapClaims, head ...string) *verify.Request {
	t.Helper()
	token := jwt.NewWithClaims(method, claims)
	for i := 0; i < len(head); i += 2 {
		token.Header[head[i]] = []string{head[i+1]}
	}
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return post(body, "Authorization", "Bearer "+text)
}

func TestJWTClaims(t *testing.T) {
	sum := sha256.Sum256([]byte(body))
	good := jwt.MapClaims{"iss": "me", "aud": []string{"other", "us"}, "exp": someTime.Unix() + 60, "hash": hex.EncodeToString(sum[:])}
	o := verify.Options{"issuer": "you me", "audience": "us", "body_claim": "hash"}
	v := newVerifier(t, "jwt", o, secret)
	with := func(name string, value any) jwt.MapClaims {
		c := jwt.MapClaims{}
		for k, x := range good {
			c[k] = x
		}
		if c[name] = value; value == nil {
			delete(c, name)
		}
		return c
	}
	for _, c := range []struct {
		name string
		r    *verify.Request
		want verify.Reason
	}{
		{"genuine", bearer(t, jwt.SigningMethodHS256, []byte(secret), good), ""},
		{"the hash in base64url", bearer(t, jwt.SigningMethodHS256, []byte(secret), with("hash", base64.RawURLEncoding.EncodeToString(sum[:]))), ""},
		{"an audience that is a text", bearer(t, jwt.SigningMethodHS256, []byte(secret), with("aud", "us")), ""},
		{"a fraction of a second", bearer(t, jwt.SigningMethodHS256, []byte(secret), with("exp", float64(someTime.Unix())+60.5)), ""},
		{"another issuer", bearer(t, jwt.SigningMethodHS256, []byte(secret), with("iss", "mallory")), verify.ReasonWrongClaim},
		{"no issuer", bearer(t, jwt.SigningMethodHS256, []byte(secret), with("iss", nil)), verify.ReasonWrongClaim},
		{"another audience", bearer(t, jwt.SigningMethodHS256, []byte(secret), with("aud", "them")), verify.ReasonWrongClaim},
		{"no audience", bearer(t, jwt.SigningMethodHS256, []byte(secret), with("aud", nil)), verify.ReasonWrongClaim},
		{"a name in another case", bearer(t, jwt.SigningMethodHS256, []byte(secret), with("ISS", "mallory")), ""},
		{"expired", bearer(t, jwt.SigningMethodHS256, []byte(secret), with("exp", someTime.Unix()-10)), verify.ReasonTooOld},
		{"an end that is no number", bearer(t, jwt.SigningMethodHS256, []byte(secret), with("exp", "never")), verify.ReasonBadTimestamp},
		{"not before an hour", bearer(t, jwt.SigningMethodHS256, []byte(secret), with("nbf", someTime.Unix()+3600)), verify.ReasonTooNew},
		{"issued in an hour", bearer(t, jwt.SigningMethodHS256, []byte(secret), with("iat", someTime.Unix()+3600)), verify.ReasonTooNew},
		{"another body", bearer(t, jwt.SigningMethodHS256, []byte(secret), with("hash", strings.Repeat("0", 64))), verify.ReasonNoMatch},
		{"no hash", bearer(t, jwt.SigningMethodHS256, []byte(secret), with("hash", nil)), verify.ReasonNoMatch},
		{"another secret", bearer(t, jwt.SigningMethodHS256, []byte("another"), good), verify.ReasonNoMatch},
		{"another algorithm", bearer(t, jwt.SigningMethodHS512, []byte(secret), good), verify.ReasonUnsupported},
		{"no algorithm", bearer(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, good), verify.ReasonUnsupported},
		{"a demand that is not understood", bearer(t, jwt.SigningMethodHS256, []byte(secret), good, "crit", "b64"), verify.ReasonUnsupported},
		{"another scheme", post(body, "Authorization", "Basic x"), verify.ReasonMalformed},
		{"two segments", post(body, "Authorization", "Bearer a.b"), verify.ReasonMalformed},
		{"four segments", post(body, "Authorization", "Bearer a.b.c.d"), verify.ReasonMalformed},
		{"none", post(body), verify.ReasonMissing},
	} {
		if got := v.Verify(t.Context(), c.r, someTime); got.Reason != c.want {
			t.Errorf("%s: got %+v, want %q", c.name, got, c.want)
		}
	}
}

// A public key is no secret: a token that is signed with its text as the secret must not pass.
func TestAPublicKeyIsNeverUsedAsASecret(t *testing.T) {
	private := testKeys().private[2]
	public := publicOf(t, private)
	claims := jwt.MapClaims{"exp": someTime.Unix() + 60}
	v := newVerifier(t, "jwt", verify.Options{"algorithms": "RS256 HS256"}, public)
	if got := v.Verify(t.Context(), bearer(t, jwt.SigningMethodRS256, parsePrivate(t, private), claims), someTime); !got.OK {
		t.Errorf("genuine: got %+v", got)
	}
	for _, key := range []string{public, strings.TrimSpace(public), strings.TrimSpace(public) + "\n"} {
		if v.Verify(t.Context(), bearer(t, jwt.SigningMethodHS256, []byte(key), claims), someTime).OK {
			t.Error("a token signed with the public key's text is accepted")
		}
	}
	fusion := newVerifier(t, "fusionauth", nil, public)
	forged := bearer(t, jwt.SigningMethodHS256, []byte(public), claims)
	forged.Header.Set("X-FusionAuth-Signature-JWT", strings.TrimPrefix(forged.Header.Get("Authorization"), "Bearer "))
	if got := fusion.Verify(t.Context(), forged, someTime); got.OK {
		t.Errorf("fusionauth: got %+v", got)
	}
}

func TestTextsOfPublicKeysAreNoSecrets(t *testing.T) {
	for _, provider := range []string{"fusionauth", "netlify", "vonage", "jwt"} {
		for _, text := range []string{publicOf(t, testKeys().private[1]), "-----BEGIN PUBLIC KEY-----\nbroken\n-----END PUBLIC KEY-----", `{"kty":"oct","k":"c2VjcmV0"}`} {
			if provider == "fusionauth" && !strings.Contains(text, "broken") && strings.HasPrefix(text, "-") {
				continue // there it is a key to check with
			}
			if _, err := verify.New(provider, []string{text}, nil, nil); err == nil {
				t.Errorf("%s takes %.30q as a secret", provider, text)
			}
		}
	}
}

func TestRetiredKeysAreDropped(t *testing.T) {
	for _, v := range readVectors(t) {
		if v.Provider != "plaid" || !v.Valid {
			continue
		}
		retired := strings.Replace(v.Secret, "{", `{"expired_at":1767000000,`, 1)
		if _, err := verify.New("plaid", []string{retired}, nil, nil); err == nil {
			t.Error("a key that has expired is accepted")
		}
		current := strings.Replace(v.Secret, "{", `{"expired_at":null,`, 1)
		if got := newVerifier(t, "plaid", nil, current).Verify(t.Context(), v.request(t), v.now()); !got.OK {
			t.Errorf("a key that has not: got %+v", got)
		}
		return
	}
	t.Error("no vector to try it with")
}

func TestShortRSAKeysAreRefused(t *testing.T) {
	const short = "MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDdlatRjRjogo3WojgGHFHYLugdUWAY9iR3fy4arWNA1KoS8kVw33cJibXr8bvwUAUparCwlvdbH6dvEOfou0/gCFQsHUfQrSDv+MuSUMAe8jzKE4qW+jK+xQU9a03GUnKHkkle+Q0pX/g6jXZ7r1/xAK5Do2kQ+X5xK9cipRgEKwIDAQAB"
	if _, err := verify.New("wise", []string{short}, nil, nil); err == nil {
		t.Error("1024 bits are accepted")
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

func TestOldButWellSignedRequestsAreRefused(t *testing.T) {
	p, _ := verify.Lookup("stripe")
	g, _ := makeGenuine(t, p)
	for _, age := range []time.Duration{301 * time.Second, 86400 * time.Second, 250 * 365 * 24 * time.Hour} {
		if got := g.verifier.Verify(t.Context(), g.request, someTime.Add(age)); got.Reason != verify.ReasonTooOld {
			t.Errorf("%v old: got %+v", age, got)
		}
	}
}

func TestConstantContactsTimeIsSignedInTheJOSEHeader(t *testing.T) {
	r := post(someBody)
	options := verify.Options{"header": "X-Jws"}
	private := testKeys().private[2]
	if err := verify.Sign("constant-contact", verify.SignKeys{Private: private}, options, r, someTime); err != nil {
		t.Fatal(err)
	}
	wide := verify.Options{"header": "X-Jws", "tolerance": "1h"}
	for _, c := range []struct {
		options verify.Options
		at      time.Duration
		want    verify.Reason
	}{
		{options, 0, ""},
		{options, 4 * time.Minute, ""},
		{options, 6 * time.Minute, verify.ReasonTooOld},
		{options, -6 * time.Minute, verify.ReasonTooNew},
		{wide, 59 * time.Minute, ""},
		{wide, 61 * time.Minute, verify.ReasonTooOld},
	} {
		if got := newVerifier(t, "constant-contact", c.options, publicOf(t, private)).Verify(t.Context(), r, someTime.Add(c.at)); got.Reason != c.want {
			t.Errorf("%v after %s: got %+v, want %q", c.options, c.at, got, c.want)
		}
	}
}
