package verify

import (
	"cmp"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/caddy-anvil/anvil/internal/jsonptr"
)

// facts are where a provider puts what it calls an event and its id. The written form is fields, as of field, joined by
// " + " where several make up the value, and " | " between alternatives of which the first that is there counts.
type facts struct{ id, typ place }

type place [][]field

func newFacts(r *row, o Options) (facts, error) {
	var f facts
	var err error
	if f.id, err = parsePlace(cmp.Or(o["event_id"], r.eventID)); err != nil {
		return f, err
	}
	f.typ, err = parsePlace(cmp.Or(o["event_type"], r.eventType))
	return f, err
}

func parsePlace(s string) (place, error) {
	if s == "" {
		return nil, nil
	}
	var p place
	for alternative := range strings.SplitSeq(s, " | ") {
		var fields []field
		for text := range strings.SplitSeq(alternative, " + ") {
			f, err := parseField(text)
			if err != nil {
				return nil, err
			}
			fields = append(fields, f)
		}
		p = append(p, fields)
	}
	return p, nil
}

// factMax is the longest event type or id that is believed, in bytes; real ones have under 64.
const factMax = 256

// EventFacts returns what the provider calls this kind of event, and its id, empty when the request does not say. Call it
// only for accepted requests: they may be in the body, or in a header that is not signed; Provider tells whether it is.
func (v *Verifier) EventFacts(r *Request) (eventType, eventID string) {
	var doc lazyDocument
	r = v.reshaped(r)
	return v.facts.typ.get(v, r, &doc), v.facts.id.get(v, r, &doc)
}

// reshaped returns the form of the request in which the provider's fields stand.
func (v *Verifier) reshaped(r *Request) *Request {
	switch c := v.check.(type) {
	case *reshaped:
		return c.reshape(r)
	case *dropboxSignChecker:
		return c.reshape(r)
	}
	return r
}

// get returns the value. One that is longer than 256 bytes or not printable UTF-8 counts as absent, because it goes into
// lists and logs.
func (p place) get(v *Verifier, r *Request, doc *lazyDocument) string {
	for _, fields := range p {
		values := make([]string, 0, len(fields))
		for i := range fields {
			text := doc.get(&fields[i], v, r)
			if text == "" {
				break
			}
			values = append(values, text)
		}
		if text := strings.Join(values, ":"); len(values) == len(fields) && printable(text) {
			return text
		}
	}
	return ""
}

func printable(s string) bool {
	if s == "" || len(s) > factMax || !utf8.ValidString(s) {
		return false
	}
	return !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c == 0x7f })
}

// lazyDocument judges the body once for all pointers into it.
type lazyDocument struct {
	doc           []byte
	judged, valid bool
}

func (d *lazyDocument) of(body []byte) ([]byte, bool) {
	if !d.judged {
		d.doc, d.valid = jsonptr.Document(body)
		d.judged = true
	}
	return d.doc, d.valid
}

func (d *lazyDocument) get(f *field, v *Verifier, r *Request) string {
	switch f.kind {
	case jsonField:
		doc, ok := d.of(r.Body)
		if !ok {
			return ""
		}
		return textAt(f.path, doc)
	case claimField:
		if j, ok := v.check.(claiming); ok {
			if payload := j.claims(r); json.Valid(payload) {
				return textAt(f.path, payload)
			}
		}
		return ""
	}
	text, _ := f.get(r)
	return text
}

// claiming checkers read a JWT.
type claiming interface{ claims(r *Request) []byte }

func textAt(p jsonptr.Pointer, doc []byte) string {
	raw, ok := p.Find(doc)
	if !ok {
		return ""
	}
	text, ok := jsonptr.Text(raw)
	if !ok {
		return ""
	}
	return string(text)
}
