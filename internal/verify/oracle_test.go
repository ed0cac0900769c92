package verify_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/caddy-anvil/anvil/internal/verify"
)

// Whoever asks gets the HMAC of a challenge of his choice, under the secret that also signs deliveries.
func TestAHandshakeAnswerNeverVerifiesAsADelivery(t *testing.T) {
	const key = "a-secret-made-up-for-tests"
	field := func(body, name string) string {
		var m map[string]string
		if err := json.Unmarshal([]byte(body), &m); err != nil {
			return ""
		}
		return m[name]
	}
	hex24 := "0123456789abcdef01234567"
	for _, c := range []struct {
		name, provider, secret, query string
		answered                      bool
		forge                         func(answer string) *verify.Request
	}{
		{"x, a form", "x", key, "crc_token=" + url.QueryEscape("amount=1"), true, func(a string) *verify.Request {
			return post("amount=1", "X-Twitter-Webhooks-Signature", field(a, "response_token"))
		}},
		{"x, a number", "x", key, "crc_token=42", true, func(a string) *verify.Request {
			return post("42", "X-Twitter-Webhooks-Signature", field(a, "response_token"))
		}},
		{"linkedin, a form", "linkedin", key, "challengeCode=" + url.QueryEscape("hmacsha256=amount=1"), false, func(a string) *verify.Request {
			return post("amount=1", "X-LI-Signature", field(a, "challengeResponse"))
		}},
		{"braintree, hex", "braintree", "public:private-made-up", "bt_challenge=" + hex24, true, func(a string) *verify.Request {
			return post("bt_payload="+hex24+"&bt_signature="+url.QueryEscape(a), "Content-Type", "application/x-www-form-urlencoded")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := newVerifier(t, c.provider, nil, c.secret)
			answer, ok := shake(t, v, get(c.query), someTime)
			if !ok || (answer.Status == http.StatusOK) != c.answered {
				t.Fatalf("got %+v, %v", answer, ok)
			}
			if got := v.Verify(t.Context(), c.forge(answer.Body), someTime); got.OK {
				t.Error("its answer proves a delivery")
			}
		})
	}
}

func TestABodyThatCannotBeASignedChallengeIsADelivery(t *testing.T) {
	const key = "a-secret-made-up-for-tests"
	for _, provider := range []string{"x", "linkedin"} {
		for _, body := range []string{`{"id":1}`, " \n[1]", "", "\x00\xff{", strings.Repeat("a", 1025)} {
			if got := newVerifier(t, provider, nil, key).Verify(t.Context(), signedPost(t, provider, key, body), someTime); !got.OK {
				t.Errorf("%s %q: got %+v", provider, body, got)
			}
		}
	}
}

func TestMandrillsTestAtRegistrationIsAnswered(t *testing.T) {
	v := newVerifier(t, "mandrill", nil, "a-key-made-up-for-tests")
	for body, want := range map[string]bool{
		"mandrill_events=%5B%5D":               true,
		"mandrill_events=%5B%7B%7D%5D":         false,
		"mandrill_events=%5B%5D&x=1":           false,
		"mandrill_events=[]&mandrill_events=x": false,
		"":                                     false,
	} {
		r := post(body, "X-Mandrill-Signature", "AAAAAAAAAAAAAAAAAAAAAAAAAAA=", "Content-Type", "application/x-www-form-urlencoded")
		if got, ok := shake(t, v, r, someTime); ok != want || ok && got.Status != http.StatusOK {
			t.Errorf("%q: got %+v, %v", body, got, ok)
		}
	}
}

func TestTebexValidationEchoesNothingLong(t *testing.T) {
	const key = "a-secret-made-up-for-tests"
	r := signedPost(t, "tebex", key, `{"type":"validation.webhook","id":"`+strings.Repeat("x", 2000)+`"}`)
	if got, ok := shake(t, newVerifier(t, "tebex", nil, key), r, someTime); !ok || got.Status != http.StatusBadRequest {
		t.Errorf("got %+v, %v", got, ok)
	}
}

// Only a checksum of PayPal's body is signed, so the hash of what is signed must stand for every body with that checksum.
func TestPayPalsSignedHashIsThatOfAllBodiesWithTheChecksum(t *testing.T) {
	v := newVerifier(t, "paypal", nil, "webhook-1", "webhook-2")
	request := func(body, id string) *verify.Request {
		return post(body, "Paypal-Transmission-Id", id, "Paypal-Transmission-Time", "2026-01-01T00:00:00Z")
	}
	hash := func(r *verify.Request, secret int) string {
		return fmt.Sprintf("%x", v.SignedHash(r, verify.Verdict{OK: true, Secret: secret}, someTime))
	}
	// "plumless" and "buckeroo" have one CRC-32.
	first := hash(request("plumless", "t-1"), 0)
	if hash(request("buckeroo", "t-1"), 0) != first {
		t.Error("another body with the same checksum has another hash")
	}
	for name, other := range map[string]string{
		"checksum": hash(request("plumlesS", "t-1"), 0), "id": hash(request("plumless", "t-2"), 0), "webhook": hash(request("plumless", "t-1"), 1),
	} {
		if other == first {
			t.Errorf("another %s has the same hash", name)
		}
	}
}

// A public key is no secret in any form in which it is handed out.
func TestAPublicKeyIsNoSecretForATokensHMAC(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(publicOf(t, testKeys().private[2])), "\n")
	der := strings.Join(lines, "")
	if strings.HasPrefix(lines[0], "-----BEGIN") {
		der = strings.Join(lines[1:len(lines)-1], "")
	}
	for _, secret := range []string{der, der[:40] + "\n" + der[40:], testKeys().certificate} {
		if _, err := verify.New("jwt", []string{secret}, verify.Options{"algorithms": "HS256"}, nil); err == nil {
			t.Errorf("%.20q… is taken as a secret", secret)
		}
	}
	if _, err := verify.New("jwt", []string{"YSBzZWNyZXQgbWFkZSB1cCBmb3IgdGVzdHM="}, verify.Options{"algorithms": "HS256"}, nil); err != nil {
		t.Errorf("a secret in base64: %v", err)
	}
}
