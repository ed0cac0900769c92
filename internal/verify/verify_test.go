package verify_test

import (
	"crypto/hmac"
	"crypto/sha256"
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
	v, err := verify.New(provider, secrets, o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func check(v *verify.Verifier, header, value, body string) verify.Verdict {
	return v.Verify(&verify.Request{Header: http.Header{header: {value}}, Body: []byte(body)}, time.Unix(0, 0))
}

func sign(secret, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return hex.EncodeToString(mac.Sum(nil))
}

func TestAcceptsGenuineSignatures(t *testing.T) {
	for _, c := range []struct {
		name, provider, secret, body, header, value, canonical string
		options                                                verify.Options
	}{
		{
			name: "github as its documentation shows", provider: "github",
			secret: "It's a Secret to Everybody", body: "Hello, World!",
			header: "X-Hub-Signature-256", value: "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
			canonical: "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
		},
		{
			name: "hmac by default", provider: "hmac", secret: secret, body: body,
			header: "X-Signature", value: "sha256=" + sigHex, canonical: "sha256=" + sigHex,
		},
		{
			name: "an empty body", provider: "hmac", secret: secret, body: "",
			header: "X-Signature", value: "sha256=496dc93fa2d26eae500ec0bc37a122706b88f8963cebf0899d0245fae313e241",
			canonical: "sha256=496dc93fa2d26eae500ec0bc37a122706b88f8963cebf0899d0245fae313e241",
		},
		{
			name: "upper-case hex, canonical in lower case", provider: "hmac", secret: secret, body: body,
			header: "X-Signature", value: "sha256=" + strings.ToUpper(sigHex), canonical: "sha256=" + sigHex,
		},
		{
			name: "a header of the user's choice, in any case", provider: "hmac", secret: secret, body: body,
			options: verify.Options{SignatureHeader: "x-my-sig"},
			header:  "X-My-Sig", value: "sha256=" + sigHex, canonical: "sha256=" + sigHex,
		},
		{
			name: "no prefix", provider: "hmac", secret: secret, body: body,
			options: verify.Options{PrefixSet: true},
			header:  "X-Signature", value: sigHex, canonical: "sha256=" + sigHex,
		},
		{
			name: "a prefix of the user's choice", provider: "hmac", secret: secret, body: body,
			options: verify.Options{Prefix: "v1 "},
			header:  "X-Signature", value: "v1 " + sigHex, canonical: "sha256=" + sigHex,
		},
		{
			name: "sha1 with its own prefix", provider: "hmac", secret: "Jefe", body: "what do ya want for nothing?",
			options: verify.Options{Algorithm: "sha1"},
			header:  "X-Signature", value: "sha1=effcdf6ae5eb2fa2d27416d5f184df9c259a7c79",
			canonical: "sha1=effcdf6ae5eb2fa2d27416d5f184df9c259a7c79",
		},
		{
			name: "sha512 with its own prefix", provider: "hmac", secret: "Jefe", body: "what do ya want for nothing?",
			options: verify.Options{Algorithm: "sha512"}, header: "X-Signature",
			value: "sha512=164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554" +
				"9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737",
			canonical: "sha512=164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554" +
				"9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737",
		},
		{
			name: "base64, without a prefix", provider: "hmac", secret: "Jefe", body: "what do ya want for nothing?",
			options: verify.Options{Encoding: "base64"},
			header:  "X-Signature", value: "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM=",
			canonical: "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
		},
		{
			name: "base64 with a prefix, which is not taken for a part of the digest", provider: "hmac",
			secret: "Jefe", body: "what do ya want for nothing?",
			options: verify.Options{Encoding: "base64", Prefix: "sha256="},
			header:  "X-Signature", value: "sha256=W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM=",
			canonical: "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := check(newVerifier(t, c.provider, c.options, c.secret), c.header, c.value, c.body)
			if want := (verify.Verdict{OK: true, Signature: c.canonical}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if got := check(newVerifier(t, c.provider, c.options, c.secret), c.header, c.value, c.body+"x"); got.OK {
				t.Error("the same signature was accepted for another body")
			}
		})
	}
}

func TestRefusesEverythingElse(t *testing.T) {
	flipped := "1" + sigHex[1:]
	for _, c := range []struct {
		name, value string
		want        verify.Reason
		options     verify.Options
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
			v := newVerifier(t, "hmac", c.options, secret)
			for range 3 {
				if got, want := check(v, "X-Signature", c.value, body), (verify.Verdict{Reason: c.want}); got != want {
					t.Fatalf("got %+v, want %+v", got, want)
				}
			}
			if !check(v, "X-Signature", "sha256="+sigHex, body).OK {
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
	v := newVerifier(t, "hmac", verify.Options{Encoding: "base64"}, secret)
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

func TestRefusesARepeatedSignatureHeaderInEitherOrder(t *testing.T) {
	good, bad := "sha256="+sigHex, "sha256="+strings.Repeat("0", 64)
	v := newVerifier(t, "hmac", verify.Options{}, secret)
	for _, values := range [][]string{{good, bad}, {bad, good}, {good, good}, {"", good}, {good, ""}} {
		got := v.Verify(&verify.Request{Header: http.Header{"X-Signature": values}, Body: []byte(body)}, time.Unix(0, 0))
		if want := (verify.Verdict{Reason: verify.ReasonRepeated}); got != want {
			t.Errorf("%q: got %+v, want %+v", values, got, want)
		}
	}
}

func TestRefusesARequestWithoutTheProvidersOwnHeader(t *testing.T) {
	v := newVerifier(t, "github", verify.Options{}, secret)
	sha1Header := http.Header{"X-Hub-Signature": {"sha1=0000000000000000000000000000000000000000"}}
	for name, h := range map[string]http.Header{
		"no headers at all":           nil,
		"another provider's header":   {"X-Signature": {"sha256=" + sigHex}},
		"only the weaker SHA-1 one":   sha1Header,
		"the right header, no values": {"X-Hub-Signature-256": nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := v.Verify(&verify.Request{Header: h, Body: []byte(body)}, time.Unix(0, 0))
			if want := (verify.Verdict{Reason: verify.ReasonMissing}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestSignsRawBytesWhateverTheyAre(t *testing.T) {
	v := newVerifier(t, "github", verify.Options{}, secret)
	for name, body := range map[string]string{
		"odd JSON spacing":       "{ \"b\":1,\n  \"a\" : 2.0 }",
		"four-byte UTF-8":        `{"name":"ç 😀"}`,
		"invalid UTF-8 and NUL":  "\x00\xff\xfe",
		"form with escapes":      "payload=%7B%22a%22%3A1%7D&x=%2B+",
		"byte order mark":        "\xef\xbb\xbf{}",
		"trailing CRLF":          "{}\r\n",
		"longer than many reads": strings.Repeat("0123456789", 100_000),
	} {
		t.Run(name, func(t *testing.T) {
			if got := check(v, "X-Hub-Signature-256", "sha256="+sign(secret, body), body); !got.OK {
				t.Errorf("refused: %s", got.Reason)
			}
		})
	}
}

func TestAnySecretOfARotationMatchesAndIsNamed(t *testing.T) {
	v := newVerifier(t, "github", verify.Options{}, "the new secret", "the old secret", "the new secret")
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
	v := newVerifier(t, "github", verify.Options{}, " secret\n")
	if !check(v, "X-Hub-Signature-256", "sha256="+sign(" secret\n", body), body).OK {
		t.Error("the exact secret was refused")
	}
	if check(v, "X-Hub-Signature-256", "sha256="+sign("secret", body), body).OK {
		t.Error("the secret was trimmed")
	}
}

func TestConcurrentRequestsDoNotDisturbEachOther(t *testing.T) {
	v := newVerifier(t, "github", verify.Options{}, "the new secret", "the old secret")
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
	v := newVerifier(t, "github", verify.Options{}, secrets...)
	values := map[string]string{
		"matches the first secret": "sha256=" + sign("first", body),
		"matches the last secret":  "sha256=" + sign("last", body),
		"matches no secret":        "sha256=" + strings.Repeat("0", 64),
		"wrong prefix":             "sha1=" + strings.Repeat("0", 64),
		"not hex":                  "sha256=" + strings.Repeat("z", 64),
		"short":                    "sha256=00",
	}
	// The fastest of several rounds, each with all values, so that a busy machine slows them alike.
	fastest := map[string]time.Duration{}
	for range 10 {
		for name, value := range values {
			start := time.Now()
			check(v, "X-Hub-Signature-256", value, body)
			took := time.Since(start)
			if best, ok := fastest[name]; !ok || took < best {
				fastest[name] = took
			}
		}
	}
	for name, took := range fastest {
		if took < fastest["matches no secret"]/3 {
			t.Errorf("%s: %v, while a signature that matches no secret takes %v", name, took, fastest["matches no secret"])
		}
	}
}

// Keying the HMACs anew for each request takes 17 allocations here, a pooled one only the canonical
// signature. The race detector makes the pool forget a quarter of what it is given, which is why the bound lies between.
func TestKeyedStatesAreReused(t *testing.T) {
	v := newVerifier(t, "github", verify.Options{}, "the new secret", secret)
	r := &verify.Request{Header: http.Header{"X-Hub-Signature-256": {"sha256=" + sigHex}}, Body: []byte(body)}
	if n := testing.AllocsPerRun(1000, func() { v.Verify(r, time.Time{}) }); n > 8 {
		t.Errorf("%v allocations a request", n)
	}
}

func BenchmarkVerify(b *testing.B) {
	body := strings.Repeat("x", 1<<10)
	for _, c := range []struct {
		name    string
		value   string
		secrets []string
	}{
		{"genuine", "sha256=" + sign(secret, body), []string{secret}},
		{"genuine, second of two secrets", "sha256=" + sign(secret, body), []string{"the new secret", secret}},
		{"forged", "sha256=" + strings.Repeat("0", 64), []string{secret}},
		{"malformed", "sha256=", []string{secret}},
	} {
		b.Run(c.name, func(b *testing.B) {
			v := newVerifier(b, "github", verify.Options{}, c.secrets...)
			r := &verify.Request{Header: http.Header{"X-Hub-Signature-256": {c.value}}, Body: []byte(body)}
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				v.Verify(r, time.Time{})
			}
		})
	}
}
