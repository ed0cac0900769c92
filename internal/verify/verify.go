// Package verify proves that a webhook comes from its provider. It knows signature schemes and the table of providers
// that use them; it sees only the facts of one request, never a connection or a store.
//
// To add a provider that fits a family, add one row to that family's table file and one vector to testdata/vectors.jsonl.
package verify

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Request holds the facts of a request that schemes sign or carry their signature in.
type Request struct {
	// Method is the HTTP method in upper case.
	Method string
	// URL is the absolute URL as the sender saw it, query included, not a character of it changed.
	URL string
	// Header has canonical names, as net/http makes them.
	Header http.Header
	// Body is the exact bytes received, before any decoding.
	Body []byte

	// Reached is the URL by which the request came, where URL is another because the configuration says so. Only Explain
	// looks at it.
	Reached string

	// json is set in copies that a checker makes, so that it judges the body once.
	json *lazyDocument
}

// Verdict answers Verify.
type Verdict struct {
	OK bool
	// Reason says why the request was refused; empty when OK.
	Reason Reason
	// Signature stands for the accepted signature in dedupe keys: "<algorithm>=<lower-case hex>" of its digest, or, where
	// one message has many valid signatures, of the signed message's hash. Two spellings of a signature give the same text.
	// Of several signatures in one request it is one that matched; as anyone can leave the others out, or that one, Dedupe
	// does not build on it there. It is empty where the scheme signs nothing.
	Signature string
	// Secret is the index of the secret that matched, the first one if several do. It means nothing unless OK.
	Secret int
	// variant is the number of the signed message among those that the provider may sign, group that of the signature's group.
	variant, group int
}

// Reason says why a request was refused. It is for operators and metrics, never for the sender, so the set is closed.
type Reason string

// The reasons of a refusal.
const (
	ReasonMissing        Reason = "missing_header"      // the signature, its time or its id is absent or empty
	ReasonRepeated       Reason = "repeated_header"     // one of them came more than once
	ReasonMalformed      Reason = "malformed_signature" // its form, length or encoding is not the scheme's
	ReasonUnsupported    Reason = "unsupported_version" // it is of a version or algorithm that is not accepted
	ReasonBadTimestamp   Reason = "bad_timestamp"       // the signed time cannot be read
	ReasonTooOld         Reason = "too_old"             // the signed time is too long ago
	ReasonTooNew         Reason = "too_new"             // the signed time is too far ahead
	ReasonNoMatch        Reason = "no_match"            // well-formed, but made with another secret or for another request
	ReasonWrongClaim     Reason = "wrong_claim"         // a JWT, certificate or topic is genuine but not meant for us
	ReasonNoSecret       Reason = "no_secret"           // no secret is configured, so only handshakes are answered; our fault, so 503
	ReasonKeyUnavailable Reason = "key_unavailable"     // the provider's key could not be fetched; our fault, so 503
)

// Reasons lists all reasons.
func Reasons() []Reason {
	return []Reason{
		ReasonMissing, ReasonRepeated, ReasonMalformed, ReasonUnsupported, ReasonBadTimestamp, ReasonTooOld, ReasonTooNew,
		ReasonNoMatch, ReasonWrongClaim, ReasonNoSecret, ReasonKeyUnavailable,
	}
}

// Verifier checks the requests of one provider against one set of secrets. It is safe for concurrent use.
type Verifier struct {
	row     *row
	options Options
	secrets int
	check   checker
	facts   facts
	// secretAt keeps the secrets out of reach of formatting verbs and encoders.
	secretAt func(i int) string
	// hidden returns options that are secrets, too.
	hidden func(word string) string
	fetch  Fetcher
}

// scheme describes how a provider proves its requests. compile makes it ready for one set of secrets and options.
type scheme interface {
	compile(c *compilation) (checker, error)
}

// checker decides about requests.
type checker interface {
	check(ctx context.Context, r *Request, now time.Time) Verdict
}

// covering checkers can tell what an accepted signature covers.
type covering interface {
	signedHash(r *Request, v Verdict, now time.Time) ([sha256.Size]byte, bool)
}

// compilation is what a scheme is made ready from.
type compilation struct {
	row     *row
	secrets []string
	options Options
	fetch   Fetcher
	// anyTime accepts any signed time, to find out what else is wrong.
	anyTime bool
}

// window returns the row's window as the options change it.
func (c *compilation) window(w window) window {
	if c.anyTime {
		return window{past: unbounded, future: unbounded}
	}
	if d, err := parseTolerance(c.options["tolerance"]); err == nil {
		return window{past: d, future: d}
	}
	return w.or()
}

// with returns the compilation for other secrets.
func (c *compilation) with(secrets []string) *compilation {
	other := *c
	other.secrets = secrets
	return &other
}

// New makes a Verifier. A request is accepted when any of the secrets made its signature; their bytes are used exactly
// as given. fetch gets certificates and keys for the providers that need it; nil refuses their requests with
// key_unavailable. Errors: an unknown provider, no secret where one is needed, an empty or too short one, one that is not
// in the provider's form, an option that the provider does not take or that has an impossible value.
func New(provider string, secrets []string, o Options, fetch Fetcher) (*Verifier, error) {
	r, ok := find(provider)
	if !ok {
		return nil, fmt.Errorf("choosing verification: unknown provider %q", provider)
	}
	v, err := build(r, secrets, o, fetch)
	if err != nil {
		return nil, fmt.Errorf("configuring provider %s: %w", r.id, err)
	}
	return v, nil
}

func build(r *row, secrets []string, o Options, fetch Fetcher) (*Verifier, error) {
	o, err := o.check(r)
	if err != nil {
		return nil, err
	}
	secrets = slices.Clone(secrets)
	if err := r.checkSecrets(secrets); err != nil {
		return nil, err
	}
	if r.secretOptional && len(secrets) > 0 && secrets[0] == "" {
		secrets = nil
	}
	hidden := o.secret()
	v := &Verifier{
		row: r, options: o, secrets: len(secrets), fetch: fetch,
		secretAt: func(i int) string { return secrets[i] }, hidden: func(word string) string { return hidden[word] },
	}
	if v.facts, err = newFacts(r, o); err != nil {
		return nil, err
	}
	switch {
	case r.scheme == nil:
		v.check = acceptAll{}
	case len(secrets) == 0 && r.secretOptional && !r.keyless:
		v.check = refuseAll{}
	default:
		v.check, err = r.scheme.compile(&compilation{row: r, secrets: secrets, options: o, fetch: fetch})
	}
	return v, err
}

// checkSecrets refuses what would prove nothing.
func (r *row) checkSecrets(secrets []string) error {
	switch {
	case r.scheme == nil:
		if len(secrets) > 0 && secrets[0] != "" {
			return errors.New("it takes no secret: this provider does not sign")
		}
		return nil
	case r.secretOptional && (len(secrets) == 0 || len(secrets) == 1 && secrets[0] == ""):
		return nil
	case len(secrets) == 0:
		return errors.New("it needs at least one secret")
	}
	for i, s := range secrets {
		switch {
		case s == "":
			return fmt.Errorf("secret %d is empty; is its variable or file set?", i+1)
		case len(s) < r.minSecret:
			return fmt.Errorf("secret %d has fewer than %d characters; copy it exactly as the provider shows it", i+1, r.minSecret)
		}
	}
	return nil
}

// Verify decides whether a request is genuine. It never fails otherwise: whatever cannot be read is a refusal with its
// reason. now is for schemes that sign a time, ctx for those that fetch keys.
func (v *Verifier) Verify(ctx context.Context, r *Request, now time.Time) Verdict {
	return v.check.check(ctx, r, now)
}

// SignedHash returns the hash of the bytes that the signature of an accepted request covers, and of the body where it
// covers none. Unlike the signature it is the same for every way to spell the request's uncovered parts.
func (v *Verifier) SignedHash(r *Request, verdict Verdict, now time.Time) [sha256.Size]byte {
	if c, ok := v.check.(covering); ok {
		if sum, ok := c.signedHash(r, verdict, now); ok {
			return sum
		}
	}
	return sha256.Sum256(r.Body)
}

// Provider returns what the table says about the provider.
func (v *Verifier) Provider() *Provider { return v.row.public() }

// String describes the verifier for logs: the provider, its options, and how many secrets it has.
func (v *Verifier) String() string {
	var b strings.Builder
	b.WriteString(v.row.id)
	for _, w := range v.options.words() {
		fmt.Fprintf(&b, " %s %s", w, v.options.shown(w))
	}
	switch v.secrets {
	case 0:
	case 1:
		b.WriteString(" (1 secret)")
	default:
		fmt.Fprintf(&b, " (%d secrets)", v.secrets)
	}
	return b.String()
}

// GoString keeps %#v from looking further.
func (v *Verifier) GoString() string { return v.String() }

// acceptAll is for providers that prove nothing.
type acceptAll struct{}

func (acceptAll) check(context.Context, *Request, time.Time) Verdict { return Verdict{OK: true} }

// refuseAll is for providers whose secret is optional, when none is configured: their handshakes need none.
type refuseAll struct{}

func (refuseAll) check(context.Context, *Request, time.Time) Verdict {
	return Verdict{Reason: ReasonNoSecret}
}
