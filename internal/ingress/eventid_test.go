package ingress_test

import (
	"crypto/sha256"
	"testing"

	"github.com/caddy-anvil/anvil/internal/ingress"
)

func TestAnEventIDIsTheKeyWhateverElseChanges(t *testing.T) {
	k, err := ingress.NewKeys(ingress.KeyRule{Kind: "event_id", Provider: "stripe"})
	if err != nil {
		t.Fatal(err)
	}
	first, fallback := k.Of("sha256=00", "evt_1", nil, []byte("a"))
	if again, _ := k.Of("sha256=11", "evt_1", nil, []byte("b")); again != first || fallback || len(first) != 64 {
		t.Errorf("keys %s and %s, fallback %v", first, again, fallback)
	}
	if other, _ := k.Of("sha256=00", "evt_2", nil, []byte("a")); other == first {
		t.Error("two ids have one key")
	}
	elsewhere, err := ingress.NewKeys(ingress.KeyRule{Kind: "event_id", Provider: "paddle"})
	if err != nil {
		t.Fatal(err)
	}
	if other, _ := elsewhere.Of("sha256=00", "evt_1", nil, []byte("a")); other == first {
		t.Error("the ids of two providers have one key")
	}
}

func TestWithoutAnEventIDTheOtherRuleCounts(t *testing.T) {
	for otherwise, want := range map[string]string{"": hexSHA256("body"), "body": hexSHA256("body"), "signature": hexSHA256("sha256=00body")} {
		k, err := ingress.NewKeys(ingress.KeyRule{Kind: "event_id", Provider: "github", Otherwise: otherwise})
		if err != nil {
			t.Fatal(err)
		}
		if got, fallback := k.Of("sha256=00", "", nil, []byte("body")); got != want || !fallback {
			t.Errorf("otherwise %q: key %s, fallback %v", otherwise, got, fallback)
		}
	}
}

func TestTheKeyOfWhatIsSignedIsNoOtherKey(t *testing.T) {
	sum := sha256.Sum256([]byte("body"))
	k, err := ingress.NewKeys(ingress.KeyRule{Kind: "event_id"})
	if err != nil {
		t.Fatal(err)
	}
	signed := ingress.OfSigned(sum)
	id, _ := k.Of("", string(sum[:]), nil, nil)
	if body := hexSHA256("body"); signed == body || signed == id || len(signed) != 64 {
		t.Errorf("signed %s, body %s, id %s", signed, body, id)
	}
	if ingress.OfSigned(sha256.Sum256([]byte("other"))) == signed {
		t.Error("two messages have one key")
	}
}
