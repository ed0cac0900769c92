package verify_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-anvil/anvil/internal/verify"
)

// eachProvider runs a test for every provider that proves something, with a request that it could have sent.
func eachProvider(t *testing.T, test func(t *testing.T, g *genuine)) {
	t.Helper()
	for _, p := range verify.Providers() {
		t.Run(p.ID, func(t *testing.T) {
			if g, ok := makeGenuine(t, p); ok {
				test(t, g)
			}
		})
	}
}

func (g *genuine) refuses(t *testing.T, what string, r *verify.Request) verify.Reason {
	t.Helper()
	v := g.verifier.Verify(t.Context(), r, someTime)
	if v.OK {
		t.Errorf("%s: accepted", what)
	}
	if !v.OK && !slices.Contains(verify.Reasons(), v.Reason) {
		t.Errorf("%s: %q is not one of the reasons", what, v.Reason)
	}
	return v.Reason
}

func TestEveryProviderAcceptsWhatItSigns(t *testing.T) {
	eachProvider(t, func(t *testing.T, g *genuine) {
		for range 2 {
			if v := g.verifier.Verify(t.Context(), g.request, someTime); !v.OK {
				t.Fatalf("refused: %+v", v)
			}
		}
		if g.verifier.Lacks(g.request) {
			t.Errorf("it is said to lack a header of %v", g.verifier.Requires())
		}
	})
}

// signsSome sign all that matters of the body, but not each byte: blanks, or names of other fields, may differ. What is
// signed there is in tests of their own.
var signsSome = []string{"aws-sns", "exact-online", "quoter"}

func TestEveryProviderRefusesAChangedBody(t *testing.T) {
	eachProvider(t, func(t *testing.T, g *genuine) {
		if !g.provider.CoversBody || slices.Contains(signsSome, g.provider.ID) {
			// Nothing may panic.
			for i := range g.request.Body {
				r := g.clone()
				r.Body[i] ^= 1
				g.verifier.Verify(t.Context(), r, someTime)
			}
			return
		}
		for i := range g.request.Body {
			r := g.clone()
			r.Body[i] ^= 1
			g.refuses(t, "one bit of the body", r)
		}
		longer := g.clone()
		longer.Body = append(longer.Body, '\n')
		g.refuses(t, "a line break behind the body", longer)
		shorter := g.clone()
		shorter.Body = shorter.Body[:len(shorter.Body)-1]
		g.refuses(t, "a body less its last byte", shorter)
	})
}

// unsignedHeader names headers that a provider sends with its signature and does not cover by it.
func unsignedHeader(provider, name string) bool {
	return provider == "paypal" && name == "Paypal-Cert-Url"
}

func TestEveryProviderRefusesChangedHeaders(t *testing.T) {
	eachProvider(t, func(t *testing.T, g *genuine) {
		for _, name := range g.added {
			value := g.request.Header.Get(name)
			for i := range len(value) {
				if unsignedHeader(g.provider.ID, name) && i > 7 {
					break // another certificate of the same hosts is refused where it is fetched
				}
				r := g.clone()
				changed := []byte(value)
				changed[i] ^= 1
				r.Header.Set(name, string(changed))
				g.refuses(t, "one bit of "+name+" at "+string(rune('0'+i%10)), r)
			}
			huge := g.clone()
			huge.Header.Set(name, value+strings.Repeat("0", 10_000))
			g.refuses(t, name+" of 10 kB", huge)
			huge.Header.Set(name, strings.Repeat("é", 5_000))
			g.refuses(t, name+" of 10 kB of other characters", huge)
		}
	})
}

func TestEveryProviderRefusesMissingAndRepeatedHeaders(t *testing.T) {
	eachProvider(t, func(t *testing.T, g *genuine) {
		for _, name := range g.added {
			missing := g.clone()
			missing.Header.Del(name)
			if optional := g.provider.ID == "adyen-platform" && name == "Protocol" || name == "X-Hubspot-Signature-Version" ||
				name == "Box-Signature-Algorithm" || g.provider.ID == "lago" && name != "X-Lago-Signature"; !optional {
				g.refuses(t, "no "+name, missing)
			}
			empty := g.clone()
			empty.Header.Set(name, "")
			if name != "Protocol" && name != "X-Hubspot-Signature-Version" && name != "Box-Signature-Algorithm" && name != "X-Lago-Signature-Algorithm" {
				g.refuses(t, "an empty "+name, empty)
			}
			if g.provider.ID == "mollie" {
				continue // sends a header line for each active secret
			}
			value := g.request.Header.Get(name)
			for _, values := range [][]string{{value, value}, {value, "x"}, {"x", value}, {"", value}} {
				r := g.clone()
				r.Header[name] = values
				g.refuses(t, "a second "+name, r)
			}
		}
		g.refuses(t, "no headers at all", &verify.Request{Method: http.MethodPost, URL: "https://hooks.example.test/", Body: []byte("{}")})
		g.refuses(t, "nothing at all", &verify.Request{})
	})
}

func TestEveryProviderRefusesAnotherSecret(t *testing.T) {
	eachProvider(t, func(t *testing.T, g *genuine) {
		v, err := verify.New(g.provider.ID, []string{g.other}, g.options, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := v.Verify(t.Context(), g.request, someTime); got.OK {
			t.Error("accepted")
		}
		both, err := verify.New(g.provider.ID, []string{g.other, g.secret}, g.options, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := both.Verify(t.Context(), g.request, someTime); !got.OK || got.Secret != 1 {
			t.Errorf("with both secrets: got %+v, want secret 1", got)
		}
	})
}

func TestEverySignedTimeExpires(t *testing.T) {
	eachProvider(t, func(t *testing.T, g *genuine) {
		if g.provider.TimestampIn == "" {
			return
		}
		// The slack is for tokens, which bring their own end.
		if got := g.verifier.Verify(t.Context(), g.request, someTime.Add(g.provider.Past+2*time.Minute)); got.Reason != verify.ReasonTooOld {
			t.Errorf("stale: got %+v", got)
		}
		if g.provider.Future < 0 {
			return // the provider's own times may be any distance ahead
		}
		if got := g.verifier.Verify(t.Context(), g.request, someTime.Add(-g.provider.Future-time.Second)); got.Reason != verify.ReasonTooNew {
			t.Errorf("from the future: got %+v", got)
		}
		if g.provider.Past > 0 && g.provider.Future > max(g.provider.Past, 5*time.Minute) {
			t.Errorf("more is allowed ahead, %s, than ago, %s", g.provider.Future, g.provider.Past)
		}
		ahead := min(30*time.Second, g.provider.Future.Truncate(time.Second))
		if got := g.verifier.Verify(t.Context(), g.request, someTime.Add(-ahead)); !got.OK && g.provider.ID != "messagebird" {
			t.Errorf("%s ahead: got %+v", ahead, got)
		}
	})
}

// Signatures of any length and alphabet are refused alike, and the next genuine request is accepted.
func TestEveryProviderRefusesGarbage(t *testing.T) {
	eachProvider(t, func(t *testing.T, g *genuine) {
		for _, garbage := range []string{
			"0", "zz", strings.Repeat("0", 63), strings.Repeat("0", 64), strings.Repeat("0", 65), strings.Repeat("0", 10_000), strings.Repeat("é", 32),
			strings.Repeat("A", 43) + "=", "v1," + strings.Repeat("A", 43) + "=", "t=1767225600,v1=" + strings.Repeat("0", 64), "sha256=", "=", ",", ",,,,", ";=;=",
			"Bearer ", "Bearer .", "Bearer ..", "Bearer a.b.c", "Basic ", "Basic Og==", "..", "e30.e30.", "e30..e30", "eyJhbGciOiJub25lIn0.e30.", "\x00", "\xff", " ", "\t",
			"{}", "e30=", "|", "||", "-1", "+1",
		} {
			for _, name := range g.added {
				r := g.clone()
				r.Header.Set(name, garbage)
				if unsignedHeader(g.provider.ID, name) {
					continue
				}
				g.refuses(t, name+": "+garbage, r)
			}
		}
		if !g.verifier.Verify(t.Context(), g.request, someTime).OK {
			t.Error("the next genuine request was refused")
		}
	})
}
