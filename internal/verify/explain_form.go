package verify

import (
	"cmp"
	"slices"
	"time"
)

// signedIn returns the signed schemes that a checker consists of.
func signedIn(c checker) []*signedChecker {
	switch c := c.(type) {
	case *signedChecker:
		return []*signedChecker{c}
	case *anyOf:
		var all []*signedChecker
		for _, inner := range c.checkers {
			all = append(all, signedIn(inner)...)
		}
		return all
	case *reshaped:
		return signedIn(c.checker)
	case *dropboxSignChecker:
		return signedIn(c.checker)
	case *jsonOrForm:
		return slices.Concat(signedIn(c.inJSON), signedIn(c.inForm))
	}
	return nil
}

// timeOf returns the signed time of an accepted request, if the scheme has one and it can be read.
func timeOf(c checker, r *Request, v Verdict) (time.Time, bool) {
	switch c := c.(type) {
	case *jwtChecker:
		t, ok, _ := claims{c.claims(r)}.timeOrNone("iat")
		return t, ok
	case *jwsChecker:
		return c.timeOf(r)
	case *paypalChecker:
		return rfc3339.parse(r.Header.Get(paypalHeaders[1]))
	}
	for _, s := range signedIn(c) {
		if t, ok := s.timeOf(r, v); ok {
			return t, true
		}
	}
	return time.Time{}, false
}

func (c *signedChecker) timeOf(r *Request, v Verdict) (time.Time, bool) {
	set := c.setOf(r)
	in := &input{r: r}
	if value, reason := set.sig.get(r); reason == "" && c.spec.ts == "" {
		group, _ := c.groupAt(value, v.group)
		c.parse(in, group)
	}
	if set.ts.kind != noField {
		in.ts, _ = set.ts.lookup(r)
	}
	if !c.spec.timed() {
		return time.Time{}, false
	}
	return c.spec.unit.parse(in.ts)
}

// aboutForm tries other ways to write a signature: another encoding, algorithm or prefix.
func (e *explanation) aboutForm() {
	for _, s := range signedIn(e.checker(e.secrets())) {
		if s.public != nil || s.spec.parse != nil {
			continue
		}
		secrets := make([]string, s.secrets)
		for i := range secrets {
			secrets[i] = s.secretAt(i)
		}
		for _, enc := range encodings {
			for _, alg := range []*algorithm{s.spec.alg, hmacSHA256, hmacSHA1, hmacSHA512} {
				for _, form := range prefixForms(s.spec.prefix, alg) {
					spec := s.spec
					spec.enc, spec.alg, spec.prefix, spec.bare = enc, alg, form.prefix, form.bare
					spec.methods = nil
					if e.tried(spec, secrets) {
						e.addForm(&s.spec, &spec, form.says)
						return
					}
				}
			}
		}
	}
}

type prefixForm struct {
	prefix, says string
	bare         bool
}

func prefixForms(prefix string, alg *algorithm) []prefixForm {
	return []prefixForm{
		{prefix, "", false},
		{"", "without the prefix", false},
		{alg.name + "=", "with the prefix " + alg.name + "=", false},
		{"v1=", "with the prefix v1=", false},
		{prefix + " ", "with a blank behind the prefix", false},
	}
}

func (e *explanation) addForm(was, is *signed, prefix string) {
	switch {
	case was.alg != is.alg && was.enc.name != is.enc.name:
		e.add("algorithm", "it matches with algorithm "+is.alg.name+" and in "+is.enc.name+", not "+was.alg.name+" and "+was.enc.name)
	case was.alg != is.alg:
		e.add("algorithm", "it matches with algorithm "+is.alg.name+" instead of "+was.alg.name)
	case was.enc.name != is.enc.name:
		e.add("encoding", "it matches in "+is.enc.name+" instead of "+was.enc.name)
	default:
		e.add("prefix", "it matches "+cmp.Or(prefix, "with another prefix"))
	}
}

// aboutProvider tries other providers with the same secrets, where the request has what they require.
func (e *explanation) aboutProvider() {
	for _, r := range table().rows {
		if e.over() {
			return
		}
		if r == e.v.row || r.scheme == nil || r.generic || len(r.needs) > 0 || r.family == FamilyToken || r.family == FamilyCertificate {
			continue
		}
		v, err := build(r, e.secrets(), nil, nil)
		if err != nil || e.v.secrets == 0 || len(v.Requires()) == 0 || v.Lacks(e.r) {
			continue
		}
		if v.Verify(e.ctx, e.r, e.now).OK {
			e.add("provider", "it is genuine for verify "+r.id)
			return
		}
	}
}
