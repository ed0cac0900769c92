package verify

import (
	"crypto/sha256"
	"slices"
	"time"
)

// Dedupe returns the rule that recognises a repeated event by default: event_id, signature, body or off. It is the provider's,
// except where options say how the sender signs: with a time or an id, a repeated event has another signature.
func (v *Verifier) Dedupe() string {
	if rule := v.row.dedupe(); rule == "event_id" || rule == "off" {
		return rule
	}
	return v.DedupeOtherwise()
}

// DedupeOtherwise returns the rule for requests in which the event's id is missing: signature where an unchanged body has
// an unchanged signature, else body.
func (v *Verifier) DedupeOtherwise() string {
	if c, ok := v.check.(*signedChecker); ok && v.row.family == FamilyBody && !c.spec.timed() && c.spec.id == "" {
		return "signature"
	}
	return "body"
}

// IDSigned reports whether the event's id is covered by what proves the request, so that nobody can send a captured
// request again under another id.
func (v *Verifier) IDSigned() bool {
	if v.options["event_id"] == "" {
		return v.row.idSigned
	}
	for _, fields := range v.facts.id {
		for i := range fields {
			switch kind := fields[i].kind; {
			case kind == claimField:
			case (kind == jsonField || kind == formField) && v.row.scheme != nil && !v.row.sender:
			default:
				return false
			}
		}
	}
	return true
}

// ReplayWindow returns how long a captured request stays genuine by its signed time, from the earliest moment on; 0 means
// for ever.
func (v *Verifier) ReplayWindow() time.Duration {
	var longest time.Duration
	for _, c := range signedIn(v.check) {
		w := c.spec.window.or()
		if !c.spec.timed() || w.past == unbounded || w.future == unbounded {
			return 0
		}
		longest = max(longest, w.past+w.future)
	}
	return longest
}

// signedHash implements covering by the checker whose secret proved the request.
func (a *anyOf) signedHash(r *Request, v Verdict, now time.Time) ([sha256.Size]byte, bool) {
	for i, c := range a.checkers {
		if c, ok := c.(covering); ok && slices.Contains(a.index[i], v.Secret) {
			return c.signedHash(r, v, now)
		}
	}
	return [sha256.Size]byte{}, false
}
