package event

import (
	"encoding/binary"
	"errors"
	"net/http"
	"slices"
)

// Payload is the request as the sender made it. It travels through stores as one opaque blob, so that no store can
// search it and encryption can be added later in one place.
type Payload struct {
	Method string
	Scheme string
	Host   string
	// URI is path and query as sent, before any rewrite.
	URI      string
	ClientIP string
	Headers  []Header
	// Body is the exact bytes received; never decoded, never re-encoded.
	Body []byte
}

// Header is one header line. Lines of one name keep their order; names are sorted, because net/http does not keep
// the order in which different names came.
type Header struct {
	Name  string
	Value string
}

// Get returns the first value of a header by its canonical name.
func (p *Payload) Get(name string) string {
	for _, h := range p.Headers {
		if h.Name == name {
			return h.Value
		}
	}
	return ""
}

// HeaderLines flattens h without the named ones, which must be canonical.
func HeaderLines(h http.Header, without ...string) []Header {
	names := make([]string, 0, len(h))
	lines := 0
	for name, values := range h {
		if !slices.Contains(without, name) {
			names = append(names, name)
			lines += len(values)
		}
	}
	slices.Sort(names)
	out := make([]Header, 0, lines)
	for _, name := range names {
		for _, v := range h[name] {
			out = append(out, Header{Name: name, Value: v})
		}
	}
	return out
}

// codecPlain is the first byte of a blob: length-prefixed strings, then the body. Other codecs (an encrypted one) get
// other bytes.
const codecPlain = 1

var (
	errPayload   = errors.New("decoding payload: the stored blob is damaged or of a newer version")
	errNoPayload = errors.New("decoding payload: the store no longer has it; was it evicted or flushed?")
)

// Encode writes the blob.
func (p *Payload) Encode() []byte {
	strs := [...]string{p.Method, p.Scheme, p.Host, p.URI, p.ClientIP}
	size := 1 + len(p.Body) + binary.MaxVarintLen32
	for _, s := range strs {
		size += len(s) + binary.MaxVarintLen32
	}
	for _, h := range p.Headers {
		size += len(h.Name) + len(h.Value) + 2*binary.MaxVarintLen32
	}
	b := make([]byte, 0, size)
	b = append(b, codecPlain)
	for _, s := range strs {
		b = appendString(b, s)
	}
	b = binary.AppendUvarint(b, uint64(len(p.Headers)))
	for _, h := range p.Headers {
		b = appendString(b, h.Name)
		b = appendString(b, h.Value)
	}
	return append(b, p.Body...)
}

// DecodePayload reads a blob. The body of the result is a part of b.
func DecodePayload(b []byte) (*Payload, error) {
	if len(b) == 0 {
		return nil, errNoPayload
	}
	if b[0] != codecPlain {
		return nil, errPayload
	}
	r := reader{rest: b[1:]}
	p := &Payload{Method: r.string(), Scheme: r.string(), Host: r.string(), URI: r.string(), ClientIP: r.string()}
	n := r.uvarint()
	// Each line takes at least two bytes, so a damaged count cannot make us allocate more than the blob itself.
	if r.bad || n > uint64(len(r.rest)) {
		return nil, errPayload
	}
	p.Headers = make([]Header, 0, n)
	for range n {
		p.Headers = append(p.Headers, Header{Name: r.string(), Value: r.string()})
	}
	if r.bad {
		return nil, errPayload
	}
	p.Body = r.rest
	return p, nil
}

func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) uvarint() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *reader) string() string {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.bad, r.rest = true, nil
		return ""
	}
	s := string(r.rest[:n])
	r.rest = r.rest[n:]
	return s
}
