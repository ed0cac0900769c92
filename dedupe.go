package anvil

import (
	"cmp"
	"strings"
	"time"

	"github.com/caddy-anvil/anvil/internal/ingress"
	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/verify"
)

const defaultTTL = 168 * time.Hour

// keyPlan says which dedupe keys a webhook claims.
type keyPlan struct {
	rule ingress.KeyRule
	keys *ingress.Keys // nil: none
	ttl  time.Duration
	// signed is how long the hash of what is signed is claimed beside keys that a captured webhook can be changed to evade;
	// 0: not at all.
	signed time.Duration
}

// newKeyPlan joins what is configured with what is right for the provider; p is nil where nothing is verified.
func newKeyPlan(c *DedupeConfig, p *proof) (keyPlan, error) {
	plan := keyPlan{rule: ingress.KeyRule{Kind: "body"}, ttl: defaultTTL}
	if p != nil {
		plan.rule.Kind, plan.ttl = p.Dedupe(), p.provider.DedupeTTL
	}
	if c != nil {
		plan.ttl = orDefault(c.TTL, plan.ttl)
		switch {
		case c.Key != "":
			plan.rule = ingress.KeyRule{Kind: c.Key, Fields: c.Fields}
		case plan.rule.Kind == "off" && c.TTL > 0:
			// Whoever says how long wants repeats to be recognised.
			plan.rule.Kind = p.DedupeOtherwise()
		}
	}
	// Off means that repeats are welcome, but another event beside a captured token is none.
	if p != nil && p.provider.Once && (plan.rule.Kind != "off" || !p.provider.CoversBody) {
		plan.signed = cmp.Or(p.ReplayWindow(), plan.ttl)
	}
	switch plan.rule.Kind {
	case "off":
		return plan, nil
	case "event_id":
		if p == nil {
			plan.rule.Kind = "body"
			break
		}
		plan.rule.Provider, plan.rule.Otherwise = p.provider.ID, p.DedupeOtherwise()
		if p.provider.Proves && !p.IDSigned() {
			// Without a signed time a captured webhook can be sent again for ever.
			plan.signed = cmp.Or(p.ReplayWindow(), plan.ttl)
		}
	case "signature":
		if p == nil {
			plan.rule.Kind = "body"
		}
	}
	var err error
	plan.keys, err = ingress.NewKeys(plan.rule)
	return plan, err
}

func (k *keyPlan) String() string {
	text := strings.Join(append([]string{k.rule.Kind}, k.rule.Fields...), " ")
	if k.keys == nil {
		return text
	}
	return text + " " + shortDuration(k.ttl)
}

// of returns the keys of a webhook. id is the provider's, of a proved webhook only.
func (k *keyPlan) of(t *trust, id string, r *verify.Request, now time.Time) []store.Key {
	var keys []store.Key
	if k.keys != nil {
		signature := ""
		if t.verified {
			signature = t.verdict.Signature
		}
		value, fallback := k.keys.Of(signature, id, r.Header, r.Body)
		if (fallback || k.rule.Kind == "body") && len(r.Body) == 0 {
			value = ofBodyless(t, r, now)
		}
		keys = []store.Key{{Value: value, TTL: k.ttl}}
	}
	// Also where the id is missing: it can be added to a captured webhook as well as changed.
	if k.signed > 0 && t.verified {
		keys = append(keys, store.Key{Value: ingress.OfSigned(t.by.SignedHash(r, t.verdict, now)), TTL: k.signed})
	}
	return keys
}

// ofBodyless is the key of a webhook without a body to tell it from another: its event is in the URL. Where only the time is
// signed, the time tells apart two events with one URL. Where not even that is, the signature is the same for all of them and
// a captured one fits any URL, so they are one event.
func ofBodyless(t *trust, r *verify.Request, now time.Time) string {
	if !t.verified || !t.by.provider.CoversBody || t.by.provider.Family == verify.FamilyURL {
		return ingress.OfURL(r.Method, r.URL)
	}
	signed := ingress.OfSigned(t.by.SignedHash(r, t.verdict, now))
	if t.by.ReplayWindow() > 0 {
		return ingress.OfURL(r.Method, signed+" "+r.URL)
	}
	return signed
}

// shortDuration leaves out the zeroes: 168h instead of 168h0m0s.
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
