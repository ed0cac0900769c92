package verify

// Carried are the parts of a request in which the sender transmits the shared secret itself. They must be cut before the
// request is stored. A signature is not a secret, so signing schemes carry nothing.
type Carried struct {
	// Headers are canonical names; Query are names of query parameters, of which the values must go.
	Headers, Query []string
	// Body is true when the secret is in the body, which is stored as it came: the docs say so.
	Body bool
}

type carried struct{ Carried }

func (c *carried) add(f *field) {
	switch f.kind {
	case headerField:
		c.Headers = append(c.Headers, f.name)
	case queryField:
		c.Query = append(c.Query, f.name)
	case jsonField, formField:
		c.Body = true
	}
}

// carrying checkers read a secret that was sent.
type carrying interface{ carried() Carried }

// Carries tells what must be cut from accepted requests before they are stored.
func (v *Verifier) Carries() Carried {
	// A sender that signs may still be set to send its token too, which proves requests elsewhere.
	if s, ok := v.row.scheme.(standard); ok && s.token != "" {
		return Carried{Headers: []string{s.token}}
	}
	if c, ok := v.check.(carrying); ok {
		return c.carried()
	}
	return Carried{}
}

func (t *tokenChecker) carried() Carried { return t.carries.Carried }
func (*basicChecker) carried() Carried   { return Carried{Headers: []string{"Authorization"}} }
func (u *unlessHeader) carried() Carried {
	if c, ok := u.inner.(carrying); ok {
		return c.carried()
	}
	return Carried{}
}

func (a *anyOf) carried() Carried {
	var all Carried
	for _, c := range a.checkers {
		if inner, ok := c.(carrying); ok {
			one := inner.carried()
			all.Headers = append(all.Headers, one.Headers...)
			all.Query = append(all.Query, one.Query...)
			all.Body = all.Body || one.Body
		}
	}
	return all
}

// Requires returns the canonical names of headers without which a delivery cannot be genuine, so that it can be refused
// before its body is read. Handshakes may lack them; see Lacks.
func (v *Verifier) Requires() []string {
	if c, ok := v.check.(requiring); ok {
		return c.requires()
	}
	return nil
}

// requiring checkers know headers that a delivery must have.
type requiring interface{ requires() []string }

func (c *signedChecker) requires() []string {
	var names []string
	add := func(f *field) {
		if f.kind == headerField {
			names = append(names, f.name)
		}
	}
	if len(c.sets) == 1 && !c.spec.numbered {
		add(&c.sets[0].sig)
		add(&c.sets[0].ts)
		add(&c.sets[0].id)
	}
	for i := range c.fixed {
		if c.spec.fixed[i].required {
			add(&c.fixed[i])
		}
	}
	return names
}

func (t *tokenChecker) requires() []string {
	if len(t.fields) == 1 && t.fields[0].kind == headerField {
		return []string{t.fields[0].name}
	}
	return nil
}

func (*basicChecker) requires() []string { return []string{"Authorization"} }

// Lacks reports whether a request cannot be genuine for want of a header, and is no handshake either.
func (v *Verifier) Lacks(r *Request) bool {
	missing := false
	for _, name := range v.Requires() {
		missing = missing || len(r.Header[name]) == 0
	}
	if !missing {
		return false
	}
	for i := range v.row.handshakes {
		if v.row.handshakes[i].maybe(r) {
			return false
		}
	}
	return true
}
