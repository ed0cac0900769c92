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
// one unchanged signature, else body.
func (v *Verifier) DedupeOtherwise() string {
	if c, ok := v.check.(*signedChecker); ok && v.row.family == FamilyBody && c.spec.unchanging() {
		return "signature"
	}
	return "body"
}

// unchanging reports whether an unchanged body has one unchanged signature. It has several where a header may hold those
// of several secrets, of which anyone can leave some out.
func (s *signed) unchanging() bool {
	several := s.list != "" || s.pairs != "" || s.multi || s.numbered || s.parse != nil
	return !s.timed() && s.id == "" && !several
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
		if min(w.past, w.future) == unbounded || !c.signsTime() {
			return 0
		}
		longest = max(longest, w.past+w.future)
	}
	return longest
}

// signsTime reports whether each of the messages that may be signed covers the time.
func (c *signedChecker) signsTime() bool {
	inBody := !slices.ContainsFunc(c.sets, func(s headerSet) bool { return s.ts.kind == noField || s.ts.kind == headerField })
	for _, t := range c.templates {
		if signed := t.has(timestampPart) || t.has(builtPart) || inBody && t.has(bodyPart); !signed {
			return false
		}
	}
	return c.spec.timed()
}

// signedHash implements covering: the hash of the bytes that the accepted signature covers.
func (c *signedChecker) signedHash(r *Request, v Verdict, now time.Time) ([sha256.Size]byte, bool) {
	st := c.state()
	defer c.free(st)
	set := c.setOf(r)
	st.in = input{r: r, sigs: st.in.sigs[:0]}
	if value, reason := set.sig.get(r); reason == "" {
		group, _ := c.groupAt(value, v.group)
		c.parse(&st.in, group)
	}
	if c.complete(&st.in, set, now, false) != "" {
		return [sha256.Size]byte{}, false
	}
	st.msg.b = st.msg.b[:0]
	found := false
	c.variants(&st.in, func(n int, t template) bool {
		if n == v.variant {
			found = t.write(&st.in, "", &st.msg)
			return false
		}
		return true
	})
	return sha256.Sum256(st.msg.b), found
}
