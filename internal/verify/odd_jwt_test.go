package verify_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/caddy-anvil/anvil/internal/verify"
)

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
		maps.Copy(c, good)
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
		{"an end with an exponent", bearer(t, jwt.SigningMethodHS256, []byte(secret), with("exp", json.Number("1.7672256601e9"))), ""},
		{"a start with an exponent", bearer(t, jwt.SigningMethodHS256, []byte(secret), with("nbf", json.Number("1.9e9"))), verify.ReasonTooNew},
		{"an end beyond all numbers", bearer(t, jwt.SigningMethodHS256, []byte(secret), with("exp", json.Number("1e400"))), verify.ReasonMalformed},
		{"an end beyond all times", bearer(t, jwt.SigningMethodHS256, []byte(secret), with("exp", json.Number("1e18"))), verify.ReasonBadTimestamp},
		{"an end before all times", bearer(t, jwt.SigningMethodHS256, []byte(secret), with("exp", json.Number("-1e9"))), verify.ReasonBadTimestamp},
		{"an end that is a word", bearer(t, jwt.SigningMethodHS256, []byte(secret), with("exp", true)), verify.ReasonBadTimestamp},
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

// shortRSA is a public key of 1024 bits.
const shortRSA = "MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDdlatRjRjogo3WojgGHFHYLugdUWAY9iR3fy4arWNA1KoS8kVw33cJibXr8bvwUAUparCwlvdbH6dvEOfou0/gCFQsHUfQrSDv+MuSUMAe8jzKE4qW+jK+xQU9a03GUnKHkkle+Q0pX/g6jXZ7r1/xAK5Do2kQ+X5xK9cipRgEKwIDAQAB"

func TestShortRSAKeysAreRefused(t *testing.T) {
	if _, err := verify.New("wise", []string{shortRSA}, nil, nil); err == nil {
		t.Error("1024 bits are accepted")
	}
}

// Parsing a long token costs more than the sender pays for it.
func TestTokensHaveAGreatestLength(t *testing.T) {
	key := parsePrivate(t, testKeys().private[2])
	token := func(pad int) string {
		text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"pad": strings.Repeat("x", pad)}).SignedString([]byte(secret))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	jws := func(pad int) string {
		head := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256","pad":"` + strings.Repeat("x", pad) + `"}`))
		sig, err := jwt.SigningMethodRS256.Sign(head+"."+base64.RawURLEncoding.EncodeToString([]byte(body)), key)
		if err != nil {
			t.Fatal(err)
		}
		return head + ".." + base64.RawURLEncoding.EncodeToString(sig)
	}
	for _, c := range []struct {
		provider, secret, header, before string
		make                             func(pad int) string
		fits, tooLong                    int
	}{
		{"jwt", secret, "Authorization", "Bearer ", token, 12_000, 12_500},
		{"saleor", publicOf(t, testKeys().private[2]), "Saleor-Signature", "", jws, 1400, 1600},
	} {
		v := newVerifier(t, c.provider, nil, c.secret)
		for pad, want := range map[int]verify.Reason{c.fits: "", c.tooLong: verify.ReasonMalformed} {
			text := c.make(pad)
			if got := v.Verify(t.Context(), post(body, c.header, c.before+text), someTime); got.Reason != want {
				t.Errorf("%s of %d bytes: got %+v, want %q", c.provider, len(text), got, want)
			}
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
