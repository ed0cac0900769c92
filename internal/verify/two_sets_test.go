package verify_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-anvil/anvil/internal/verify"
)

// eachOfTwoSets runs a test for every provider that may use one of two sets of headers, with requests that are signed by
// either. lone are headers of the set by which the request is not signed, too few for that set to be complete.
func eachOfTwoSets(t *testing.T, test func(t *testing.T, g *genuine, r *verify.Request, lone []string)) {
	t.Helper()
	seen := 0
	eachProvider(t, func(t *testing.T, g *genuine) {
		first, second, two := strings.Cut(g.provider.SignatureIn, " | ")
		if !two || !slices.Contains([]verify.Family{verify.FamilyStandard, verify.FamilyBody}, g.provider.Family) {
			return
		}
		seen++
		rename := strings.NewReplacer(first, second)
		ids := strings.Split(g.provider.EventID, " | ")
		if g.provider.Family == verify.FamilyStandard {
			rename = strings.NewReplacer(strings.TrimSuffix(first, "Signature"), strings.TrimSuffix(second, "Signature"))
		}
		other := g.clone()
		clear(other.Header)
		for name, lines := range g.request.Header {
			other.Header.Set(rename.Replace(name), lines[0])
		}
		for i, r := range []*verify.Request{g.request, other} {
			var lone []string
			if len(ids) == 2 {
				lone = append(lone, ids[1-i])
			}
			if g.provider.Family == verify.FamilyStandard {
				lone = append(lone, strings.Replace(ids[1-i], "Id", "Timestamp", 1))
			}
			test(t, g, r, lone)
		}
	})
	if seen < 20 {
		t.Errorf("only %d providers have two sets", seen)
	}
}

func with(r *verify.Request, value string, names ...string) *verify.Request {
	other := *r
	other.Header = maps.Clone(r.Header)
	for _, name := range names {
		other.Header.Set(name, value)
	}
	return &other
}

// An id that nobody has signed would make a new event of each copy of a captured request.
func TestHeadersOfTheSetThatDidNotVerifyAreNotRead(t *testing.T) {
	eachOfTwoSets(t, func(t *testing.T, g *genuine, r *verify.Request, lone []string) {
		verdict := g.verifier.Verify(t.Context(), r, someTime)
		if !verdict.OK {
			t.Fatalf("%v: refused: %+v", r.Header, verdict)
		}
		wantType, wantID := g.verifier.EventFacts(r)
		wantHash := g.verifier.SignedHash(r, verdict, someTime)
		for n := 1; n <= len(lone); n++ {
			changed := with(r, "1767225601", lone[:n]...)
			got := g.verifier.Verify(t.Context(), changed, someTime)
			if !got.OK {
				continue
			}
			typ, id := g.verifier.EventFacts(changed)
			if g.verifier.IDSigned() && (id == "" || id != wantID || typ != wantType) {
				t.Errorf("%v beside %v: the event is %q %q, was %q %q", lone[:n], slices.Sorted(maps.Keys(r.Header)), typ, id, wantType, wantID)
			}
			if g.verifier.SignedHash(changed, got, someTime) != wantHash {
				t.Errorf("%v: another signed hash", lone[:n])
			}
		}
	})
}

func TestADeliveryWithBothSetsCompleteIsAccepted(t *testing.T) {
	eachOfTwoSets(t, func(t *testing.T, g *genuine, r *verify.Request, _ []string) {
		both := with(g.request, "")
		maps.Copy(both.Header, r.Header)
		_, want := g.verifier.EventFacts(g.request)
		got := g.verifier.Verify(t.Context(), both, someTime)
		if _, id := g.verifier.EventFacts(both); !got.OK || id != want {
			t.Errorf("%v: got %+v with the id %q, want %q", both.Header, got, id, want)
		}
	})
}
