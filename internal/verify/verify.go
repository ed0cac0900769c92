// Package verify proves that a webhook comes from its provider. It knows signature schemes and the table of providers
// that use them; it sees only the facts of one request, never a connection or a store.
package verify

import (
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Request holds the facts of a request that schemes sign or carry their signature in.
type Request struct {
	// Header has canonical names, as net/http makes them.
	Header http.Header
	// Body is the exact bytes received, before any decoding.
	Body []byte
}

// Verdict answers Verify.
type Verdict struct {
	OK bool
	// Reason says why the request was refused; empty when OK.
	Reason Reason
	// Signature is the accepted signature in its one canonical spelling, "<algorithm>=<lower-case hex of the digest>",
	// so that two spellings of a signature give one dedupe key. Empty unless OK.
	Signature string
	// Secret is the index of the secret that matched, the first one if several do. It means nothing unless OK.
	Secret int
}

// Reason says why a request was refused. It is for operators and metrics, never for the sender, so the set is closed.
type Reason string

// The reasons of a refusal.
const (
	ReasonMissing   Reason = "missing_header"      // the signature header is absent or empty
	ReasonRepeated  Reason = "repeated_header"     // the signature header came more than once
	ReasonMalformed Reason = "malformed_signature" // the prefix, length or encoding is not the scheme's
	ReasonNoMatch   Reason = "no_match"            // well-formed, but made with another secret or for another body
)

// Verifier checks the requests of one provider against one set of secrets. It is safe for concurrent use.
type Verifier struct {
	row     row
	secrets int
	// states holds *state. The secrets themselves live only in the closure of its New, where no formatting verb and no
	// encoder can reach them.
	states sync.Pool
}

// New makes a Verifier. A request is accepted when any of the secrets made its signature; their bytes are used exactly
// as given. Errors: an unknown provider, no secret, an empty secret, an option that the provider does not take or that
// has an impossible value.
func New(provider string, secrets []string, o Options) (*Verifier, error) {
	r, ok := find(provider)
	if !ok {
		return nil, fmt.Errorf("choosing verification: unknown provider %q; known are %s", provider, knownIDs())
	}
	r, err := r.with(o)
	if err != nil {
		return nil, fmt.Errorf("configuring provider %s: %w", r.id, err)
	}
	if len(secrets) == 0 {
		return nil, fmt.Errorf("configuring provider %s: it needs at least one secret", r.id)
	}
	keys := make([][]byte, len(secrets))
	for i, s := range secrets {
		if s == "" {
			return nil, fmt.Errorf("configuring provider %s: secret %d is empty; is its variable or file set?", r.id, i+1)
		}
		keys[i] = []byte(s)
	}
	v := &Verifier{row: r, secrets: len(keys)}
	v.states.New = func() any { return r.scheme.newState(keys) }
	return v, nil
}

// Verify decides whether a request is genuine. It never fails otherwise: whatever cannot be read is a refusal with its
// reason. now is for schemes that sign a time.
func (v *Verifier) Verify(r *Request, _ time.Time) Verdict {
	scheme := &v.row.scheme
	values := r.Header[scheme.header]
	// A proxy or application behind us may look at another one of several values than we do, so none is trusted.
	if len(values) > 1 {
		return Verdict{Reason: ReasonRepeated}
	}
	if len(values) == 0 || values[0] == "" {
		return Verdict{Reason: ReasonMissing}
	}

	st := v.states.Get().(*state) //nolint:forcetypeassert // the pool holds nothing else
	defer v.states.Put(st)
	wellFormed := scheme.decode(values[0], st)
	// All secrets are tried even after a match or a malformed signature: the time taken tells a forger neither which
	// secret came close nor how far its signature was understood. Backwards, so that the first match stands.
	match := -1
	for i := len(st.macs) - 1; i >= 0; i-- {
		same := subtle.ConstantTimeCompare(st.digestOf(i, r.Body), st.given)
		match = subtle.ConstantTimeSelect(same, i, match)
	}
	switch {
	case !wellFormed:
		return Verdict{Reason: ReasonMalformed}
	case match < 0:
		return Verdict{Reason: ReasonNoMatch}
	}
	return Verdict{OK: true, Signature: scheme.canonical(st), Secret: match}
}

// Requires returns the canonical names of headers without which a request cannot be genuine, so that it can be refused
// before its body is read.
func (v *Verifier) Requires() []string { return []string{v.row.scheme.header} }

// Carries returns the canonical names of headers in which the sender transmits a shared secret itself. They must be cut
// before the request is stored. A signature is not a secret, so signing schemes carry none.
func (v *Verifier) Carries() []string { return nil }

// factMax is the longest event type or id that is believed, in bytes; real ones have under 64.
const factMax = 256

// EventFacts returns what the provider calls this event and its id, empty when the provider does not say so in headers.
// These headers are seldom signed, so they may inform a reader and must not decide anything. A value that is longer than
// 256 bytes or not UTF-8 counts as absent, because it goes into lists and logs.
func (v *Verifier) EventFacts(h http.Header) (eventType, eventID string) {
	return fact(h, v.row.eventType), fact(h, v.row.eventID)
}

func fact(h http.Header, name string) string {
	values := h[name]
	if len(values) == 0 || len(values[0]) > factMax || !utf8.ValidString(values[0]) {
		return ""
	}
	return values[0]
}

// String describes the verifier for logs: the provider, a generic scheme's parameters, and how many secrets it has.
func (v *Verifier) String() string {
	var b strings.Builder
	b.WriteString(v.row.id)
	if v.row.generic {
		s := v.row.scheme
		fmt.Fprintf(&b, " %s %s %s", s.header, s.algorithm.name, s.encoding.name)
	}
	if v.secrets == 1 {
		b.WriteString(" (1 secret)")
	} else {
		fmt.Fprintf(&b, " (%d secrets)", v.secrets)
	}
	return b.String()
}
