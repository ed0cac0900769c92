package verify_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-anvil/anvil/internal/verify"
)

// families has one provider of each family, with a secret; without one it has a key pair.
var families = []struct {
	provider, secret string
}{
	{"github", "a-secret-made-up-for-tests"},
	{"stripe", "a-secret-made-up-for-tests"},
	{"slack", "a-secret-made-up-for-tests"},
	{"standard-webhooks", "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="},
	{"square", "a-secret-made-up-for-tests"},
	{"hmac", "a-secret-made-up-for-tests"},
	{"token", "a-secret-made-up-for-tests"},
	{"basic", "user:a-secret-made-up-for-tests"},
	{"qstash", "current-made-up,next-made-up"},
	{"mailgun", "a-secret-made-up-for-tests"},
	{"discord", ""},
}

func benchRequest(tb testing.TB, provider, secret string) (*verify.Verifier, *verify.Request) {
	tb.Helper()
	keys := verify.SignKeys{Secret: secret}
	if secret == "" {
		keys = verify.SignKeys{Private: testKeys().private[0]}
		secret = publicOf(tb, keys.Private)
	}
	body := `{"id":"evt_1","note":"` + strings.Repeat("x", 1000) + `"}`
	r := &verify.Request{Method: http.MethodPost, URL: someURL, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(body)}
	if err := verify.Sign(provider, keys, nil, r, someTime); err != nil {
		tb.Fatal(err)
	}
	return newVerifier(tb, provider, nil, secret), r
}

func BenchmarkVerify(b *testing.B) {
	for _, f := range families {
		b.Run(f.provider, func(b *testing.B) {
			v, r := benchRequest(b, f.provider, f.secret)
			b.SetBytes(int64(len(r.Body)))
			b.ReportAllocs()
			for b.Loop() {
				if !v.Verify(b.Context(), r, someTime).OK {
					b.Fatal("refused")
				}
			}
		})
	}
}

func BenchmarkEventID(b *testing.B) {
	v, r := benchRequest(b, "stripe", "a-secret-made-up-for-tests")
	b.ReportAllocs()
	for b.Loop() {
		if _, id := v.EventFacts(r); id != "evt_1" {
			b.Fatal("another id")
		}
	}
}

// Looking a provider up is a map's work, so it does not grow with their number, and verifying allocates only what the
// verdict holds. The race detector makes pools forget, so the bound leaves room.
func TestVerifyingAllocatesLittle(t *testing.T) {
	for _, provider := range []string{"github", "stripe", "slack", "standard-webhooks", "zendesk", "square"} {
		secret := "a-secret-made-up-for-tests"
		if provider == "standard-webhooks" {
			secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
		}
		v, r := benchRequest(t, provider, secret)
		if n := testing.AllocsPerRun(1000, func() { v.Verify(t.Context(), r, someTime) }); n > 8 {
			t.Errorf("%s: %v allocations a request", provider, n)
		}
	}
}
