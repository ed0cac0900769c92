package verify

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"strings"
	"time"

	"github.com/caddy-anvil/anvil/internal/jsonptr"
)

// token is a secret that the sender transmits itself. What holds it must be cut before a request is stored.
type token struct {
	// in are the places, as of field; the first that is there decides alone.
	in []string
	// scheme is the word before the token, as in "Bearer"; with bare it may be missing.
	scheme string
	bare   bool
	// every element of the JSON array at each holds the token at the pointer in.
	each string
	// chosen lets the options header and query name another place.
	chosen bool
}

// tokenChecker compares digests, so that the time taken does not tell how long a secret is.
type tokenChecker struct {
	token
	fields  []field
	each    jsonptr.Pointer
	digests func() [][sha256.Size]byte
	carries carried
}

func (t token) compile(c *compilation) (checker, error) {
	if t.chosen {
		header, query := c.options["header"], c.options["query"]
		if header != "" || query != "" {
			t.in, t.scheme, t.bare = nil, "", false
			if strings.EqualFold(header, "Authorization") {
				t.scheme, t.bare = "Bearer", true
			}
		}
		if header != "" {
			t.in = append(t.in, header)
		}
		if query != "" {
			t.in = append(t.in, "query:"+query)
		}
	}
	out := &tokenChecker{token: t}
	for _, place := range t.in {
		f, err := parseField(place)
		if err != nil {
			return nil, err
		}
		out.fields = append(out.fields, f)
		out.carries.add(&f)
	}
	if t.each != "" {
		out.each = mustField(t.each).path
	}
	digests := make([][sha256.Size]byte, len(c.secrets))
	for i, s := range c.secrets {
		digests[i] = sha256.Sum256([]byte(s))
	}
	out.digests = func() [][sha256.Size]byte { return digests }
	return out, nil
}

func (t token) describe(p *Provider) { p.SignatureIn = strings.Join(t.in, " | ") }

func (t *tokenChecker) check(_ context.Context, r *Request, _ time.Time) Verdict {
	if t.token.each != "" {
		return t.checkEach(r)
	}
	for i := range t.fields {
		value, reason := t.fields[i].get(r)
		if reason == ReasonMissing && i+1 < len(t.fields) {
			continue
		}
		if reason != "" {
			return Verdict{Reason: reason}
		}
		if t.fields[i].kind == jsonField && !isJSONString(r.Body, &t.fields[i]) {
			return Verdict{Reason: ReasonMalformed}
		}
		if t.scheme != "" {
			word, rest, ok := strings.Cut(value, " ")
			switch {
			case ok && strings.EqualFold(word, t.scheme):
				value = strings.TrimLeft(rest, " ")
			case !t.bare:
				return Verdict{Reason: ReasonMalformed}
			}
		}
		return t.compare(value)
	}
	return Verdict{Reason: ReasonMissing}
}

func (t *tokenChecker) compare(value string) Verdict {
	given := sha256.Sum256([]byte(value))
	match := -1
	digests := t.digests()
	for i := len(digests) - 1; i >= 0; i-- {
		match = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(given[:], digests[i][:]), i, match)
	}
	if match < 0 {
		return Verdict{Reason: ReasonNoMatch}
	}
	return Verdict{OK: true, Secret: match}
}

// maxItems bounds the elements of an array of which each must be proved.
const maxItems = 2000

func (t *tokenChecker) checkEach(r *Request) Verdict {
	items, reason := itemsAt(r.Body, t.each)
	if reason != "" {
		return Verdict{Reason: reason}
	}
	verdict := Verdict{Reason: ReasonMissing}
	for _, item := range items {
		text := ""
		if raw, ok := t.fields[0].path.Find(item); ok && raw[0] == '"' {
			b, _ := jsonptr.Text(raw)
			text = string(b)
		}
		if verdict = t.compare(text); !verdict.OK {
			return verdict
		}
	}
	return verdict
}

// itemsAt returns the elements of a JSON array, of which there must be one at least.
func itemsAt(body []byte, p jsonptr.Pointer) ([][]byte, Reason) {
	doc, ok := jsonptr.Document(body)
	if !ok {
		return nil, ReasonMissing
	}
	raw, ok := p.Find(doc)
	if !ok {
		return nil, ReasonMissing
	}
	items, ok := jsonptr.Items(raw, maxItems)
	switch {
	case !ok:
		return nil, ReasonMalformed
	case len(items) == 0:
		return nil, ReasonMissing
	}
	return items, ""
}

// isJSONString tells "42" from 42: a token is text.
func isJSONString(body []byte, f *field) bool {
	doc, ok := jsonptr.Document(body)
	if !ok {
		return false
	}
	raw, ok := f.path.Find(doc)
	return ok && raw[0] == '"'
}

// unsignedToken is a token that counts only while a header is absent: where the sender signs, the signature must be
// checked, and we have nothing to check it with.
type unsignedToken struct{ header, unless string }

func (u unsignedToken) compile(c *compilation) (checker, error) {
	inner, err := token{in: []string{u.header}}.compile(c)
	return &unlessHeader{inner: inner, name: u.unless}, err
}

type unlessHeader struct {
	inner checker
	name  string
}

func (u *unlessHeader) check(ctx context.Context, r *Request, now time.Time) Verdict {
	if len(r.Header[u.name]) > 0 {
		return Verdict{Reason: ReasonUnsupported}
	}
	return u.inner.check(ctx, r, now)
}

// basic is HTTP basic authentication; secrets are user:password.
type basic struct{}

type basicChecker struct{ token *tokenChecker }

func (basic) compile(c *compilation) (checker, error) {
	for i, s := range c.secrets {
		if !strings.Contains(s, ":") {
			return nil, secretError(i, "has no colon; write it as user:password")
		}
	}
	inner, err := token{}.compile(c)
	if err != nil {
		return nil, err
	}
	return &basicChecker{token: inner.(*tokenChecker)}, nil //nolint:forcetypeassert // token compiles to nothing else
}

func (basic) describe(p *Provider) { p.SignatureIn = "Authorization (basic)" }

func (b *basicChecker) check(_ context.Context, r *Request, _ time.Time) Verdict {
	value, reason := one(r.Header["Authorization"])
	if reason != "" {
		return Verdict{Reason: reason}
	}
	scheme, text, ok := strings.Cut(value, " ")
	if !ok || !strings.EqualFold(scheme, "Basic") || strings.ContainsAny(text, "\r\n") {
		return Verdict{Reason: ReasonMalformed}
	}
	plain, err := base64.StdEncoding.Strict().DecodeString(strings.TrimLeft(text, " "))
	// The user ends at the first colon; as the whole is compared, it need not be split.
	if err != nil || !strings.Contains(string(plain), ":") {
		return Verdict{Reason: ReasonMalformed}
	}
	return b.token.compare(string(plain))
}
