package verify

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
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
	r = v.reshaped(r)
	f := &finder{v: v, r: r, ignored: passedOver(v.check, r)}
	return f.get(v.facts.typ), f.get(v.facts.id)
}

// passedOver returns the headers of sets by which the request was not proved: nothing there is signed.
func passedOver(c checker, r *Request) []string {
	var names []string
	for _, s := range signedIn(c) {
		chosen := s.setOf(r)
		for i := range s.sets {
			for _, f := range []field{s.sets[i].ts, s.sets[i].id} {
				if f.name != chosen.ts.name && f.name != chosen.id.name {
					names = append(names, f.name)
				}
			}
		}
	}
	return names
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

// finder looks for facts in one request.
type finder struct {
	v   *Verifier
	r   *Request
	doc lazyDocument
	// ignored headers count as absent.
	ignored []string
}

// get returns the value at a place. One that is longer than 256 bytes or not printable UTF-8 counts as absent, because it
// goes into lists and logs.
func (f *finder) get(p place) string {
	for _, fields := range p {
		values := make([]string, 0, len(fields))
		for i := range fields {
			text := f.text(&fields[i])
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
	return !strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) })
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

func (f *finder) text(at *field) string {
	switch {
	case at.kind == jsonField:
		doc, ok := f.doc.of(f.r.Body)
		if !ok {
			return ""
		}
		return textAt(at.path, doc)
	case at.kind == claimField:
		if j, ok := f.v.check.(claiming); ok {
			if payload := j.claims(f.r); json.Valid(payload) {
				return textAt(at.path, payload)
			}
		}
		return ""
	case at.kind == headerField && slices.Contains(f.ignored, at.name):
		return ""
	}
	text, _ := at.get(f.r)
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
