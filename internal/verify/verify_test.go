package verify_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/verify"
)

const (
	secret = "0123456789abcdef"
	body   = `{"id":"evt_1"}`
	sigHex = "058d37e5c6599b17f2260c5d771a650b4005c603b5b3f6e1134e79f85adacdea"
)

func newVerifier(t testing.TB, provider string, o verify.Options, secrets ...string) *verify.Verifier {
	t.Helper()
	v, err := verify.New(provider, secrets, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func check(v *verify.Verifier, header, value, body string) verify.Verdict {
	r := &verify.Request{Method: http.MethodPost, URL: someURL, Header: http.Header{header: {value}}, Body: []byte(body)}
	return v.Verify(context.Background(), r, someTime)
}

func sign(secret, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return hex.EncodeToString(mac.Sum(nil))
}

func TestRefusesEverythingElse(t *testing.T) {
	flipped := "1" + sigHex[1:]
	for _, c := range []struct {
		name, value string
		want        verify.Reason
	}{
		{name: "another digest", value: "sha256=" + flipped, want: verify.ReasonNoMatch},
		{name: "empty", value: "", want: verify.ReasonMissing},
		{name: "only the prefix", value: "sha256=", want: verify.ReasonMalformed},
		{name: "one character", value: "s", want: verify.ReasonMalformed},
		{name: "no prefix", value: sigHex, want: verify.ReasonMalformed},
		{name: "prefix in upper case", value: "SHA256=" + sigHex, want: verify.ReasonMalformed},
		{name: "prefix of another algorithm", value: "sha1=" + sigHex, want: verify.ReasonMalformed},
		{name: "prefix twice", value: "sha256=sha256=" + sigHex, want: verify.ReasonMalformed},
		{name: "blank after the prefix", value: "sha256= " + sigHex, want: verify.ReasonMalformed},
		{name: "blank after the digest", value: "sha256=" + sigHex + " ", want: verify.ReasonMalformed},
		{name: "one digit", value: "sha256=0", want: verify.ReasonMalformed},
		{name: "63 digits", value: "sha256=" + sigHex[1:], want: verify.ReasonMalformed},
		{name: "65 digits", value: "sha256=" + sigHex + "0", want: verify.ReasonMalformed},
		{name: "a digit that is none", value: "sha256=z" + sigHex[1:], want: verify.ReasonMalformed},
		{name: "the last digit is none", value: "sha256=" + sigHex[:63] + "g", want: verify.ReasonMalformed},
		{name: "10 kB", value: "sha256=" + strings.Repeat("0", 10_000), want: verify.ReasonMalformed},
		{name: "10 kB of prefix", value: strings.Repeat("sha256=", 1_500), want: verify.ReasonMalformed},
		{name: "multi-byte characters", value: "sha256=" + strings.Repeat("é", 32), want: verify.ReasonMalformed},
		{name: "invalid UTF-8 and NUL", value: "sha256=\xff\x00" + sigHex[2:], want: verify.ReasonMalformed},
		{name: "two signatures in one line", value: "sha256=" + sigHex + ",sha256=" + sigHex, want: verify.ReasonMalformed},
		{name: "base64 where hex is expected", value: "sha256=W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM=", want: verify.ReasonMalformed},
		{name: "a placeholder for a secret", value: "***", want: verify.ReasonMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := newVerifier(t, "github", nil, secret)
			for range 3 {
				if got, want := check(v, "X-Hub-Signature-256", c.value, body), (verify.Verdict{Reason: c.want}); got != want {
					t.Fatalf("got %+v, want %+v", got, want)
				}
			}
			if !check(v, "X-Hub-Signature-256", "sha256="+sigHex, body).OK {
				t.Error("the next genuine request was refused")
			}
		})
	}
}

func TestRefusesBase64ThatIsNotTheOneSpelling(t *testing.T) {
	const (
		secret = "Jefe"
		body   = "body 0"
		good   = "3BFCL4tCx4eVvCwK+/2bwo7tFYMY/Zpr0/Sn8dm66z0="
	)
	v := newVerifier(t, "hmac", verify.Options{"encoding": "base64"}, secret)
	if !check(v, "X-Signature", good, body).OK {
		t.Fatal("the one right spelling was refused")
	}
	for name, value := range map[string]string{
		"no padding":                 strings.TrimSuffix(good, "="),
		"too much padding":           good + "=",
		"set bits after the digest":  strings.TrimSuffix(good, "0=") + "1=",
		"the URL alphabet":           strings.NewReplacer("+", "-", "/", "_").Replace(good),
		"a line break":               good[:20] + "\n" + good[20:],
		"line breaks for characters": good[:39] + "\r\n\r\n=",
		"33 bytes":                   strings.TrimSuffix(good, "=") + "A",
		"31 bytes":                   good[:42] + "==",
		"hex of the digest":          "dc11422f8b42c78795bc2c0afbfd9bc28eed158318fd9a6bd3f4a7f1d9baeb3d",
		"a prefix":                   "sha256=" + good,
		"multi-byte characters":      strings.Repeat("é", 22),
	} {
		t.Run(name, func(t *testing.T) {
			if got, want := check(v, "X-Signature", value, body), (verify.Verdict{Reason: verify.ReasonMalformed}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestDigestsOfTheOtherEncodingAreRefused(t *testing.T) {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	inBase64, inHex := base64.StdEncoding.EncodeToString(mac.Sum(nil)), sigHex
	for _, c := range []struct {
		provider, header, good, bad string
	}{
		{"shopify", "X-Shopify-Hmac-Sha256", inBase64, inHex},
		{"github", "X-Hub-Signature-256", "sha256=" + inHex, "sha256=" + inBase64},
		{"github", "X-Hub-Signature-256", "sha256=" + strings.ToUpper(inHex), "sha256=zz" + inHex[2:]},
	} {
		v := newVerifier(t, c.provider, nil, secret)
		if !check(v, c.header, c.good, body).OK || check(v, c.header, c.bad, body).OK {
			t.Errorf("%s: the right encoding is refused or the other one accepted", c.provider)
		}
	}
}

func TestOneSignatureHasOneCanonicalSpelling(t *testing.T) {
	v := newVerifier(t, "hmac", nil, secret)
	for _, value := range []string{"sha256=" + sigHex, "sha256=" + strings.ToUpper(sigHex), sigHex} {
		if got := check(v, "X-Signature", value, body); got.Signature != "sha256="+sigHex {
			t.Errorf("%s: got %+v", value, got)
		}
	}
}

func TestSignsRawBytesWhateverTheyAre(t *testing.T) {
	for name, body := range map[string]string{
		"odd JSON spacing":       "{ \"b\":1,\n  \"a\" : 2.0 }",
		"four-byte UTF-8":        `{"name":"ç 😀"}`,
		"invalid UTF-8 and NUL":  "\x00\xff\xfe",
		"form with escapes":      "payload=%7B%22a%22%3A1%7D&x=%2B+",
		"byte order mark":        "\xef\xbb\xbf{}",
		"trailing CRLF":          "{}\r\n",
		"nothing":                "",
		"longer than many reads": strings.Repeat("0123456789", 100_000),
	} {
		t.Run(name, func(t *testing.T) {
			for _, provider := range []string{"github", "stripe", "slack", "shopify", "standard-webhooks", "square", "hmac"} {
				secret := secret
				if provider == "standard-webhooks" {
					secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
				}
				r := &verify.Request{Method: http.MethodPost, URL: someURL, Header: http.Header{}, Body: []byte(body)}
				if err := verify.Sign(provider, verify.SignKeys{Secret: secret}, nil, r, someTime); err != nil {
					t.Fatal(err)
				}
				if got := newVerifier(t, provider, nil, secret).Verify(t.Context(), r, someTime); !got.OK {
					t.Errorf("%s: refused: %s", provider, got.Reason)
				}
				if string(r.Body) != body {
					t.Errorf("%s: the body has been changed", provider)
				}
			}
		})
	}
}

func TestAnySecretOfARotationMatchesAndIsNamed(t *testing.T) {
	v := newVerifier(t, "github", nil, "the new secret", "the old secret", "the new secret")
	for secret, index := range map[string]int{"the new secret": 0, "the old secret": 1} {
		got := check(v, "X-Hub-Signature-256", "sha256="+sign(secret, body), body)
		if !got.OK || got.Secret != index {
			t.Errorf("%s: got %+v, want OK with secret %d", secret, got, index)
		}
	}
	got := check(v, "X-Hub-Signature-256", "sha256="+sign("a retired secret", body), body)
	if want := (verify.Verdict{Reason: verify.ReasonNoMatch}); got != want {
		t.Errorf("retired secret: got %+v, want %+v", got, want)
	}
}

func TestSecretsAreUsedByteForByte(t *testing.T) {
	v := newVerifier(t, "github", nil, " secret\n")
	if !check(v, "X-Hub-Signature-256", "sha256="+sign(" secret\n", body), body).OK {
		t.Error("the exact secret was refused")
	}
	if check(v, "X-Hub-Signature-256", "sha256="+sign("secret", body), body).OK {
		t.Error("the secret was trimmed")
	}
}

func TestPlaceholdersForSecretsDoNotSwitchVerificationOff(t *testing.T) {
	for _, placeholder := range []string{"***", "none", "changeme", "null", "false"} {
		v := newVerifier(t, "github", nil, placeholder)
		if v.Verify(t.Context(), &verify.Request{Header: http.Header{}, Body: []byte(body)}, someTime).OK {
			t.Errorf("with the secret %q an unsigned request is accepted", placeholder)
		}
	}
}

func TestConcurrentRequestsDoNotDisturbEachOther(t *testing.T) {
	v := newVerifier(t, "github", nil, "the new secret", "the old secret")
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				body := fmt.Sprintf("%d/%d", g, i)
				sig := "sha256=" + sign("the old secret", body)
				if got := check(v, "X-Hub-Signature-256", sig, body); !got.OK || got.Signature != sig || got.Secret != 1 {
					t.Errorf("genuine: got %+v", got)
				}
				if check(v, "X-Hub-Signature-256", sig, body+"x").OK {
					t.Error("forged: accepted")
				}
			}
		})
	}
	wg.Wait()
}

// A verdict that skips hashing would tell a forger by its time that the signature was not even well-formed, or which
// secret it matched. With this body and so many secrets the hashing outweighs everything else by far.
func TestTimeDoesNotTellHowCloseASignatureCame(t *testing.T) {
	body := strings.Repeat("x", 128<<10)
	secrets := []string{"first", "2", "3", "4", "5", "6", "7", "last"}
	v := newVerifier(t, "github", nil, secrets...)
	values := map[string]string{
		"matches the first secret": "sha256=" + sign("first", body),
		"matches the last secret":  "sha256=" + sign("last", body),
		"matches no secret":        "sha256=" + strings.Repeat("0", 64),
		"wrong prefix":             "sha1=" + strings.Repeat("0", 64),
		"not hex":                  "sha256=" + strings.Repeat("z", 64),
		"short":                    "sha256=00",
	}
	// The fastest of as many rounds as it takes: a busy machine can slow each down, and makes none faster than it is.
	fastest := map[string]time.Duration{}
	var early []string
	for range 500 {
		for name, value := range values {
			start := time.Now()
			check(v, "X-Hub-Signature-256", value, body)
			took := time.Since(start)
			if best, ok := fastest[name]; !ok || took < best {
				fastest[name] = took
			}
		}
		early = early[:0]
		for name, took := range fastest {
			if took < fastest["matches no secret"]/3 {
				early = append(early, name)
			}
		}
		if len(early) == 0 {
			return
		}
	}
	t.Errorf("%q are told early, in %v", early, fastest)
}

func TestNoFormattingShowsASecret(t *testing.T) {
	for _, c := range []struct {
		provider string
		secrets  []string
		options  verify.Options
	}{
		{"hmac", []string{"hunter2hunter2hunter2"}, nil},
		{"box", []string{"hunter2hunter2hunter2,other"}, nil},
		{"braintree", []string{"public:hunter2hunter2hunter2"}, nil},
		{"token", []string{"hunter2hunter2hunter2"}, nil},
		{"qstash", []string{"hunter2hunter2hunter2,other"}, nil},
		{"hubspot-v2", []string{"hunter2hunter2hunter2"}, nil},
		{"standard-webhooks", []string{"aHVudGVyMmh1bnRlcjJodW50ZXIy"}, nil},
		{"meta", []string{"another secret"}, verify.Options{"verify_token": "hunter2hunter2hunter2"}},
	} {
		v := newVerifier(t, c.provider, c.options, c.secrets...)
		v.Verify(t.Context(), &verify.Request{Header: http.Header{"X-Signature": {sigHex}}}, someTime) // fills the pool
		const secret = "hunter2hunter2hunter2"
		key := []byte(secret)
		inDecimal := strings.Trim(fmt.Sprintf("%d", key), "[]")
		inGo := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%#v", key), "[]byte{"), "}")
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			for _, shown := range []string{fmt.Sprintf(verb, v), fmt.Sprintf(verb, *v)} {
				for _, form := range []string{secret, hex.EncodeToString(key), inDecimal, inGo, "aHVudGVyMmh1bnRlcjJodW50ZXIy"} {
					if strings.Contains(shown, form) {
						t.Errorf("%s: %s shows the secret: %s", c.provider, verb, shown)
					}
				}
			}
		}
	}
}
