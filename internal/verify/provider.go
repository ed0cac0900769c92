package verify

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// row is one provider: how its requests are proved, and what they tell besides.
type row struct {
	id   string
	name string // as people write it; the id when empty
	// aliases are other ids of the same row.
	aliases []string
	family  Family
	// unconfirmed rows rest on other receivers or on memory, not on the provider's own documentation or code.
	unconfirmed bool
	docs        string

	scheme scheme // nil: the provider proves nothing
	// secret says what the secret is, "the signing secret" when empty.
	secret         string
	secretOptional bool // without one only handshakes are answered, unless the row is keyless
	keyless        bool // keys are fetched, so that it works without a secret
	minSecret      int  // in bytes; shorter ones are mistakes
	generic        bool // no provider's own: the user's options say how the sender signs
	options, needs []string

	// eventID and eventType are places; see facts.
	eventID, eventType string
	idStable, idSigned bool
	// retries is how long the provider repeats an event, where that is more than a week.
	retries time.Duration
	// maxBody is the largest body that the provider ever sends, in bytes; 0 when it states none.
	maxBody int64
	methods []string // of deliveries, POST when nil
	// accepted and refused answer the provider; zero leaves it to the gateway.
	accepted, refused Answer
	handshakes        []handshake
	// sender says that the scheme proves who sends, but not what: the body is not covered.
	sender bool
	// once says that one signature fits many requests, so that what is signed must be claimed beside the dedupe key: those
	// around a signed token, other spellings of signed fields or URLs, and other readings of a message in which nothing keeps
	// its parts from running into each other.
	once bool
	// alike says that different events may have the same body and nothing else tells them apart. A repeat that gets through
	// does less harm there than an event that is lost.
	alike bool
	// traps are what users stumble over; interactive names the flows whose sender waits for the application's answer.
	traps, interactive string
}

// Family is a kind of scheme.
type Family string

// The families.
const (
	FamilyBody        Family = "hmac-body"         // HMAC over the body
	FamilyTimed       Family = "hmac-timestamp"    // HMAC over a time, or an id, and the body
	FamilyStandard    Family = "standard-webhooks" // Standard Webhooks and Svix
	FamilyURL         Family = "hmac-url"          // HMAC or digest over the URL or method and parameters
	FamilyFields      Family = "body-signature"    // a signature within the body, over some of its fields
	FamilyPublicKey   Family = "public-key"        // Ed25519, ECDSA or RSA
	FamilyJWT         Family = "jwt"
	FamilyToken       Family = "token" // a shared token or basic auth
	FamilyCertificate Family = "certificate"
	FamilyNone        Family = "none" // nothing is proved
)

// Provider is what is said about a provider in documentation, and what a configuration needs to know before it makes a
// Verifier.
type Provider struct {
	// ID is the word that selects the provider in a configuration; "_" may stand for "-", and Aliases for it.
	ID      string
	Aliases []string
	Name    string
	Family  Family
	// Unconfirmed providers rest on other receivers or on memory; try them before relying on them.
	Unconfirmed bool
	// Docs is the address of the provider's documentation, empty when unknown.
	Docs string
	// Secret says what to give as the secret.
	Secret string
	// SecretOptional providers can be configured without a secret; Keyless ones are then still proved, by fetched keys.
	SecretOptional, Keyless bool
	// MinSecret is the least length of a secret, in bytes.
	MinSecret int
	// Generic providers have secrets of the user's own making.
	Generic bool
	// Proves is false for providers that prove nothing: accepting them is like verify none.
	Proves bool
	// Options are the words that the provider takes, Needs those it cannot do without.
	Options, Needs []string
	// SignatureIn and TimestampIn are places in the request, empty when the scheme has none.
	SignatureIn, TimestampIn string
	// Past and Future are the default tolerances of a signed time: 0 when none is signed, negative for no limit.
	Past, Future time.Duration
	// EventID and EventType are places in the request.
	EventID, EventType string
	// IDStable ids are the same when the provider delivers an event again; IDSigned ones are covered by the signature.
	IDStable, IDSigned bool
	// Dedupe is the default dedupe rule: event_id, signature, body, or off where different events may have the same body.
	Dedupe string
	// DedupeTTL covers all of the provider's retries.
	DedupeTTL time.Duration
	// MaxBody is the largest body that the provider sends, in bytes; 0 when it states no maximum.
	MaxBody int64
	// Methods are the HTTP methods of deliveries, HandshakeMethods those of handshakes.
	Methods, HandshakeMethods []string
	// Handshakes describe what is answered at registration.
	Handshakes []string
	// Accepted and Refused answer the provider; a zero Status leaves it to the gateway. A duplicate is answered as accepted.
	Accepted, Refused Answer
	// CoversBody is false where a genuine request may have any body.
	CoversBody bool
	// Once is true where SignedHash must be claimed beside the dedupe key, because one signature fits many requests.
	Once bool
	// Traps are what users stumble over; Interactive names flows that must not be queued, because their sender waits for
	// the application's own answer.
	Traps, Interactive string
}

// Answer is what a provider is told. Body is sent exactly as it is.
type Answer struct {
	Status      int
	ContentType string
	Body        string
	// Headers are further response headers.
	Headers map[string]string
	// Token is a secret that the provider handed over in a handshake, for the operator. It is not part of the answer.
	Token string
}

// minDedupeTTL is a week: many providers retry for three days, and operators send events again by hand.
const minDedupeTTL = 168 * time.Hour

type registry struct {
	rows []*row // sorted by id
	byID map[string]*row
}

// table is made once from all families. A map makes looking up independent of the number of providers.
var table = sync.OnceValue(func() *registry {
	t := &registry{byID: map[string]*row{}}
	for family, rows := range map[Family][]row{
		FamilyBody: slices.Concat(bodyRows, moreBodyRows), FamilyTimed: slices.Concat(timedRows, moreTimedRows),
		FamilyStandard: standardRows, FamilyURL: urlRows, FamilyFields: fieldsRows, FamilyPublicKey: publicKeyRows,
		FamilyJWT: jwtRows, FamilyToken: tokenRows, FamilyCertificate: certificateRows, FamilyNone: noneRows,
	} {
		for i := range rows {
			r := &rows[i]
			r.family = family
			t.rows = append(t.rows, r)
			for _, id := range append([]string{r.id}, r.aliases...) {
				if t.byID[id] != nil {
					panic("provider table: two rows for " + id)
				}
				t.byID[id] = r
			}
		}
	}
	slices.SortFunc(t.rows, func(a, b *row) int { return strings.Compare(a.id, b.id) })
	return t
})

// Providers returns all providers, sorted by id.
func Providers() []*Provider {
	out := make([]*Provider, 0, len(table().rows))
	for _, r := range table().rows {
		out = append(out, r.public())
	}
	return out
}

// Lookup returns a provider by its id or an alias, in which "_" may stand for "-".
func Lookup(id string) (*Provider, bool) {
	r, ok := find(id)
	if !ok {
		return nil, false
	}
	return r.public(), true
}

func find(id string) (*row, bool) {
	r, ok := table().byID[strings.ReplaceAll(id, "_", "-")]
	return r, ok
}

func (r *row) public() *Provider {
	p := &Provider{
		ID: r.id, Aliases: r.aliases, Name: cmp.Or(r.name, r.id), Family: r.family, Unconfirmed: r.unconfirmed, Docs: r.docs,
		Secret: cmp.Or(r.secret, "the signing secret"), SecretOptional: r.secretOptional || r.scheme == nil, Keyless: r.keyless,
		MinSecret: r.minSecret, Generic: r.generic, Proves: r.scheme != nil, Options: r.takes(), Needs: r.needs,
		EventID: r.eventID, EventType: r.eventType, IDStable: r.idStable, IDSigned: r.idSigned,
		Dedupe: r.dedupe(), DedupeTTL: max(minDedupeTTL, r.retries+24*time.Hour), MaxBody: r.maxBody, Methods: r.methods,
		Accepted: r.accepted, Refused: r.refused, CoversBody: r.scheme != nil && !r.sender, Once: r.once, Traps: r.traps, Interactive: r.interactive,
	}
	if len(p.Methods) == 0 {
		p.Methods = []string{http.MethodPost}
	}
	for _, h := range r.handshakes {
		p.Handshakes = append(p.Handshakes, h.says)
		if !slices.Contains(p.HandshakeMethods, h.method) {
			p.HandshakeMethods = append(p.HandshakeMethods, h.method)
		}
	}
	if r.scheme == nil {
		p.Secret = "none"
	}
	if d, ok := r.scheme.(described); ok {
		d.describe(p)
	}
	return p
}

// described schemes say where they look.
type described interface{ describe(p *Provider) }

func (s *signed) describe(p *Provider) {
	p.SignatureIn, p.TimestampIn = s.sig, s.ts
	if s.numbered {
		p.SignatureIn += "1, …"
	}
	if s.timed() {
		w := s.window.or()
		p.Past, p.Future = w.past, w.future
		p.TimestampIn = cmp.Or(p.TimestampIn, s.sig)
	}
}

// dedupe is the rule that recognises a repeated event however the provider repeats it.
func (r *row) dedupe() string {
	if r.alike {
		return "off"
	}
	if _, ok := r.scheme.(genericHMAC); ok {
		return "signature"
	}
	switch s, ok := r.scheme.(*signed); {
	case r.eventID != "" && r.idStable && r.idSigned:
		return "event_id"
	case ok && r.family == FamilyBody && s.unchanging():
		return "signature"
	}
	return "body"
}
