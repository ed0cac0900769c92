package verify

import (
	"errors"
	"fmt"
	"strings"
)

// signed describes a scheme in which a signature covers a message that is made of parts of the request. Most providers
// are nothing but one of these.
type signed struct {
	// sig, ts and id are the places of the signature, of the time it covers and of the message's id. Several, separated by
	// " | ", are sets of headers of which the first complete one decides alone.
	sig, ts, id string

	// How signatures stand in that place. By default the whole text is one.
	prefix   string // stands before each signature
	bare     bool   // the prefix may be missing
	list     string // separates several signatures, of which those with another prefix are skipped
	pairs    string // separates key=value pairs: signatures are under sigKey, the time under tsKey
	sigKey   string
	tsKey    string
	kv       string // between key and value, "=" by default
	tight    bool   // no blank may follow a separator
	lead     bool   // the first item of the list is the time
	groups   string // separates groups, each with its own time and signatures
	multi    bool   // each of several header lines is a signature
	numbered bool   // sig is the beginning of header names that end in 1, 2, …
	// parse reads what none of the above describes.
	parse func(in *input, value string) Reason
	// render writes what parse reads, to sign. It returns the text for the place sig.
	render func(in *input, signature string) string

	alg     *algorithm   // HMAC with SHA-256 by default
	methods []*algorithm // instead of alg: the value begins with "<name>=" of one of these
	enc     *encoding    // hex by default
	key     *keyForm     // utf8 by default

	// message is the template of what is signed, the body by default; any of several may be it, and one that needs what the
	// request lacks is passed over.
	message []string
	// urls returns the spellings of the URL that the provider may have signed; by default only the one it has.
	urls func(rawURL string) []string
	// prepare completes or checks the input before the message is made.
	prepare func(in *input) Reason

	unit *timeUnit
	window
	// fixed headers must have the value given where they are present.
	fixed []fixedHeader
	// shape and sends make any event into a request like the provider's, to sign.
	shape func(r *Request)
	sends map[string]string
	// account is a header that must name the account that the option user_id says.
	account string
	// keysURL is where public keys are fetched when no secret is configured.
	keysURL string
}

// fixedHeader names a version or algorithm of which only one is understood.
type fixedHeader struct {
	name, value string
	required    bool
}

// input is what a scheme finds in one request.
type input struct {
	r      *Request
	url    string
	ts, id string
	sigs   []string
	// alg is what the request says, where it may.
	alg    *algorithm
	signer bool // a signature is being made, not checked
	built  []byte
	// kid names the public key, empty when the request does not say.
	kid string
}

// headerSet is one of the places where a signature is looked for.
type headerSet struct{ sig, ts, id field }

func (s *signed) sets() ([]headerSet, error) {
	sigs, times, ids := strings.Split(s.sig, " | "), strings.Split(s.ts, " | "), strings.Split(s.id, " | ")
	sets := make([]headerSet, len(sigs))
	for i := range sigs {
		var err [3]error
		sets[i].sig, err[0] = parseField(sigs[i])
		sets[i].ts, err[1] = parseField(times[min(i, len(times)-1)])
		sets[i].id, err[2] = parseField(ids[min(i, len(ids)-1)])
		if e := errors.Join(err[:]...); e != nil {
			return nil, e
		}
	}
	return sets, nil
}

// compile implements scheme.
func (s *signed) compile(c *compilation) (checker, error) {
	spec := *s
	if spec.alg == nil {
		spec.alg = hmacSHA256
	}
	if spec.enc == nil {
		spec.enc = hexEncoding
	}
	if spec.key == nil {
		spec.key = utf8Key
	}
	if spec.unit == nil {
		spec.unit = seconds
	}
	if spec.kv == "" {
		spec.kv = "="
	}
	if len(spec.message) == 0 {
		spec.message = []string{"{sig.body}"}
	}
	spec.window = c.window(spec.window)
	out := &signedChecker{spec: spec, secrets: len(c.secrets), account: c.options["user_id"]}
	var err error
	if out.sets, err = spec.sets(); err != nil {
		return nil, err
	}
	for _, m := range spec.message {
		t, err := parseTemplate(m, c.options)
		if err != nil {
			return nil, err
		}
		out.templates = append(out.templates, t)
	}
	for i := range spec.fixed {
		out.fixed = append(out.fixed, mustField(spec.fixed[i].name))
	}
	if spec.alg.kind != notPublic {
		out.public, err = newPublicKeys(c, spec.alg.kind, spec.keysURL)
		return out, err
	}
	return out, out.setKeys(c.secrets)
}

// setKeys reads the secrets and keeps them out of reach of formatting verbs and encoders, in closures.
func (c *signedChecker) setKeys(secrets []string) error {
	keys := make([][]byte, len(secrets))
	for i, s := range secrets {
		k, err := c.spec.key.read(s)
		if err != nil {
			return fmt.Errorf("secret %d %w", i+1, err)
		}
		keys[i] = k
	}
	c.secretAt = func(i int) string { return secrets[i] }
	c.keyAt = func(i int) []byte { return keys[i] }
	c.states.New = func() any { return new(state) }
	return nil
}

// timed reports whether a time is signed.
func (s *signed) timed() bool { return s.ts != "" || s.tsKey != "" || s.lead }
