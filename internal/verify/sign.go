package verify

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// SignKeys are what a sender signs with.
type SignKeys struct {
	// Secret is the secret as it is configured for verification. It is not looked at where Private is what signs.
	Secret string
	// Private is the private key of an asymmetric scheme: PEM, JWK, or for Ed25519 its 32-byte seed in hex or base64.
	Private string
}

// Sign makes a request what the provider would send: it adds the headers, or the fields in the body or the URL, that
// Verify looks for, by the same description. Fields that the scheme signs and that the request lacks are filled in. It is
// for tests and for trying out a configuration. Errors: as for New, a private key that is missing or of the wrong kind,
// or a body in which the signature cannot be put.
func Sign(provider string, k SignKeys, o Options, r *Request, now time.Time) error {
	row, ok := find(provider)
	if !ok {
		return fmt.Errorf("choosing verification: unknown provider %q", provider)
	}
	if err := signRow(row, k, o, r, now); err != nil {
		return fmt.Errorf("signing as %s: %w", row.id, err)
	}
	return nil
}

func signRow(row *row, k SignKeys, o Options, r *Request, now time.Time) error {
	if r.Header == nil {
		r.Header = http.Header{}
	}
	if r.Method == "" {
		r.Method = http.MethodPost
	}
	w := &signWith{now: now, private: k.Private, secret: k.Secret}
	secrets := []string{k.Secret}
	if k.Private != "" && row.family != FamilyCertificate {
		// Verification is configured with the public key.
		public, err := w.public()
		if err != nil {
			return err
		}
		secrets = []string{public}
	}
	v, err := build(row, secrets, o, nil)
	if err != nil {
		return err
	}
	w.v = v
	s, ok := v.check.(signing)
	if !ok {
		if row.family == FamilyPublicKey {
			return errors.New("this provider signs with a private key: give one of your own")
		}
		return errors.New("this provider signs nothing, so there is nothing to add")
	}
	return s.sign(r, w)
}

// signing checkers can make what they check.
type signing interface {
	sign(r *Request, w *signWith) error
}

// signWith is what a signature is made with.
type signWith struct {
	now             time.Time
	secret, private string
	v               *Verifier
}

// sign implements signing.
func (c *signedChecker) sign(r *Request, w *signWith) error {
	st := c.state()
	defer c.free(st)
	set := &c.sets[0]
	in := &st.in
	*in = input{r: r, sigs: in.sigs[:0], signer: true, id: "msg_" + randomHex(12), ts: c.spec.unit.write(w.now)}
	if c.spec.shape != nil {
		c.spec.shape(r)
	}
	if err := c.fill(in, set, w.v.options); err != nil {
		return err
	}
	in.url, in.built = r.URL, []byte{}
	if c.spec.prepare != nil {
		if reason := c.spec.prepare(in); reason != "" {
			return fmt.Errorf("the request has not the form that the provider sends (%s)", reason)
		}
	}
	text, err := c.signature(st, w)
	if err != nil {
		return err
	}
	return set.sig.put(r, c.render(in, text), c.spec.numbered)
}

// fill puts in what is signed beside the body.
func (c *signedChecker) fill(in *input, set *headerSet, o Options) error {
	r := in.r
	for i := range c.fixed {
		r.Header.Set(c.fixed[i].name, c.spec.fixed[i].value)
	}
	for name, value := range c.spec.sends {
		if r.Header.Get(name) == "" {
			r.Header.Set(name, value)
		}
	}
	if name := c.spec.account; name != "" {
		r.Header.Set(name, cmp.Or(o["user_id"], "test"))
	}
	if set.sig.kind == jsonField {
		if err := normaliseJSON(r); err != nil {
			return err
		}
	}
	if set.ts.kind != noField {
		if err := set.ts.put(r, in.ts, false); err != nil {
			return err
		}
	}
	if set.id.kind != noField {
		if err := set.id.put(r, in.id, false); err != nil {
			return err
		}
	}
	for _, p := range c.templates[0] {
		if p.kind != fieldPart {
			continue
		}
		if _, n := p.field.lookup(r); n == 0 {
			if err := p.field.put(r, "test", false); err != nil {
				return err
			}
		}
	}
	return nil
}

// signature returns the encoded signature of the first message that the request has all parts of.
func (c *signedChecker) signature(st *state, w *signWith) (string, error) {
	alg := c.spec.alg
	if st.in.alg != nil {
		alg = st.in.alg
	}
	if len(c.spec.methods) > 0 {
		alg = hmacSHA256
		st.in.alg = alg
	}
	var sig []byte
	err := errors.New("the request lacks a part of what the provider signs")
	c.variants(&st.in, func(_ int, t template) bool {
		if alg.kind == notPublic {
			digest, ok := c.digest(st, alg, 0, t)
			if ok {
				sig, err = digest, nil
			}
			return !ok
		}
		st.msg.b = st.msg.b[:0]
		if !t.write(&st.in, "", &st.msg) {
			return true
		}
		sig, err = w.signPublic(alg, st.msg.b)
		return false
	})
	if err != nil {
		return "", err
	}
	return c.spec.enc.encode(sig), nil
}

// render writes the text of the place of the signature.
func (c *signedChecker) render(in *input, signature string) string {
	s := &c.spec
	switch {
	case s.render != nil:
		return s.render(in, signature)
	case s.pairs != "":
		text := s.sigKey + s.kv + s.prefix + signature
		if s.tsKey != "" {
			text = s.tsKey + s.kv + in.ts + s.pairs + text
		}
		return text
	case s.lead:
		return in.ts + s.list + s.prefix + signature
	case len(s.methods) > 0:
		return in.alg.name + "=" + signature
	}
	return s.prefix + signature
}

// put writes a text to its place.
func (f *field) put(r *Request, text string, numbered bool) error {
	switch f.kind {
	case headerField:
		name := f.name
		if numbered {
			name += "1"
		}
		r.Header.Set(name, text)
	case queryField:
		separator := "?"
		if strings.Contains(r.URL, "?") {
			separator = "&"
		}
		r.URL += separator + url.QueryEscape(f.name) + "=" + url.QueryEscape(text)
	case formField:
		if len(r.Body) > 0 {
			r.Body = append(r.Body, '&')
		}
		r.Body = append(r.Body, url.QueryEscape(f.name)+"="+url.QueryEscape(text)...)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	case jsonField, rawField:
		return putJSON(r, f.path, text)
	}
	return nil
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

func (a *anyOf) sign(r *Request, w *signWith) error {
	for _, c := range a.checkers {
		if s, ok := c.(signing); ok {
			return s.sign(r, w)
		}
	}
	return errors.New("there is no key to sign with")
}

func (t *tokenChecker) sign(r *Request, w *signWith) error {
	text := w.secret
	if t.scheme != "" && t.fields[0].kind == headerField && t.fields[0].name == "Authorization" {
		text = t.scheme + " " + text
	}
	if t.token.each != "" {
		return putInEach(r, t.each[0], t.fields[0].path[0], text)
	}
	return t.fields[0].put(r, text, false)
}

func (u *unlessHeader) sign(r *Request, w *signWith) error {
	if s, ok := u.inner.(signing); ok {
		return s.sign(r, w)
	}
	return nil
}

func (*basicChecker) sign(r *Request, w *signWith) error { //nolint:unparam // others can fail
	user, password, _ := strings.Cut(w.secret, ":")
	req := http.Request{Header: r.Header}
	req.SetBasicAuth(user, password)
	return nil
}
