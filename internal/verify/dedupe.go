package verify

import "time"

// Dedupe returns the rule that recognises a repeated event by default: event_id, signature or body. It is the provider's,
// except where options say how the sender signs: with a time or an id, a repeated event has another signature.
func (v *Verifier) Dedupe() string {
	if v.row.dedupe() == "event_id" {
		return "event_id"
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
