package verify

import (
	"bytes"
	"cmp"
	"net/http"
	"strings"
	"time"
	"unicode/utf16"
)

// byOption chooses between two schemes.
type byOption struct {
	option, value   string
	then, otherwise *signed
}

func (b byOption) compile(c *compilation) (checker, error) {
	if c.options[b.option] == b.value {
		return b.then.compile(c)
	}
	return b.otherwise.compile(c)
}

func (b byOption) describe(p *Provider) { b.otherwise.describe(p) }

// grafanaScheme has a timestamp header of the user's choice.
type grafanaScheme struct{}

func (grafanaScheme) signed(header string) *signed {
	return &signed{sig: "X-Grafana-Alerting-Signature", ts: header, message: []string{timeColonBody}}
}

func (g grafanaScheme) compile(c *compilation) (checker, error) {
	return g.signed(cmp.Or(c.options["timestamp_header"], "X-Grafana-Alerting-Timestamp")).compile(c)
}

func (g grafanaScheme) describe(p *Provider) { g.signed("X-Grafana-Alerting-Timestamp").describe(p) }

// boxScheme has two keys and two headers that belong together.
type boxScheme struct{}

func (boxScheme) signed(which string) *signed {
	return &signed{
		sig: "Box-Signature-" + which, ts: "Box-Delivery-Timestamp", enc: base64Encoding, unit: rfc3339,
		message: []string{bodyTime, "{sig.built}{sig.timestamp}"}, prepare: escapeAsBox,
		// Box allows ten minutes; its clock may be a little ahead of ours.
		window: window{past: 10 * time.Minute, future: time.Minute},
		fixed:  []fixedHeader{{name: "Box-Signature-Version", value: "1", required: true}, {name: "Box-Signature-Algorithm", value: "HmacSHA256", required: true}},
	}
}

func (b boxScheme) compile(c *compilation) (checker, error) {
	out := &anyOf{}
	for i, both := range c.secrets {
		primary, secondary, _ := strings.Cut(both, ",")
		for _, k := range []struct{ which, key string }{{"Primary", primary}, {"Secondary", secondary}} {
			if k.key == "" {
				continue
			}
			checker, err := b.signed(k.which).compile(c.with([]string{k.key}))
			if err != nil {
				return nil, err
			}
			out.add(checker, i)
		}
	}
	return out, nil
}

func (b boxScheme) describe(p *Provider) { b.signed("Primary").describe(p) }

// escapeAsBox builds the body in the form in which Box signs: not all that hand it on keep its escapes.
func escapeAsBox(in *input) Reason {
	out := make([]byte, 0, len(in.r.Body)+16)
	for _, c := range string(in.r.Body) {
		switch {
		case c == '/' && (len(out) == 0 || out[len(out)-1] != '\\'):
			out = append(out, '\\', '/')
		case c < 0x7f:
			out = append(out, byte(c)) //nolint:gosec // it is below 0x7f
		case c > 0xffff:
			hi, lo := utf16.EncodeRune(c)
			out = appendUnicodeEscape(appendUnicodeEscape(out, hi), lo)
		default:
			out = appendUnicodeEscape(out, c)
		}
	}
	in.built = out
	return ""
}

// hook0Signed is Hook0's scheme, which others use too. v0 covers time and body, v1 also the headers that h names.
var hook0Signed = &signed{
	sig: "X-Hook0-Signature", tsKey: "t", parse: parseHook0, render: renderHook0, message: []string{"{sig.timestamp}.{sig.built}{sig.body}"},
}

func parseHook0(in *input, value string) Reason {
	var v0, v1 []string
	var headers string
	seen := map[string]bool{}
	for item := range strings.SplitSeq(value, ",") {
		key, text, _ := strings.Cut(strings.TrimLeft(item, " "), "=")
		if seen[key] && (key == "t" || key == "h") || len(v0)+len(v1) > maxSignatures {
			return ReasonMalformed
		}
		seen[key] = true
		switch key {
		case "t":
			in.ts = text
		case "h":
			headers = text
		case "v0":
			v0 = append(v0, text)
		case "v1":
			v1 = append(v1, text)
		}
	}
	in.sigs, in.built = append(in.sigs, v0...), []byte{}
	// The stronger one alone decides where it is offered, or anyone could fall back to the weaker one by spoiling it.
	if seen["v1"] {
		in.sigs = append(in.sigs[:0], v1...)
		named, reason := headersNamed(strings.FieldsSeq(headers), in.r.Header)
		if reason != "" {
			return reason
		}
		values := make([]string, len(named))
		for i, h := range named {
			values[i] = h.value
		}
		in.built = []byte(headers + "." + strings.Join(values, ".") + ".")
	}
	switch {
	case !seen["t"]:
		return ReasonMalformed
	case len(in.sigs) == 0:
		return ReasonUnsupported
	}
	return ""
}

func renderHook0(in *input, signature string) string { return "t=" + in.ts + ",v0=" + signature }

// parseNonce reads "t=<nonce>,s=<signature>", in which t is no time.
func parseNonce(in *input, value string) Reason {
	for item := range strings.SplitSeq(value, ",") {
		key, text, _ := strings.Cut(item, "=")
		switch {
		case key == "t" && in.id == "":
			in.id = text
		case key == "s" && len(in.sigs) < maxSignatures:
			in.sigs = append(in.sigs, text)
		default:
			return ReasonMalformed
		}
	}
	if in.id == "" || len(in.sigs) == 0 {
		return ReasonMalformed
	}
	return ""
}

func renderNonce(in *input, signature string) string {
	in.id = cmp.Or(in.id, "nonce")
	return "t=" + in.id + ",s=" + signature
}

// giteaPayload builds what Gitea signs: the JSON text, which it may send in the field payload of a form or of the query.
// A form must hold nothing else, as further fields would not be covered.
func giteaPayload(in *input) Reason {
	switch {
	case in.r.Method == http.MethodGet && len(in.r.Body) == 0:
		payload, reason := one(queryValues(in.url, "payload"))
		in.built = []byte(payload)
		return reason
	case bytes.HasPrefix(in.r.Body, []byte("payload=")):
		pairs, ok := formPairs(in.r.Body)
		if !ok || len(pairs) != 1 {
			return ReasonMalformed
		}
		in.built = []byte(pairs[0].value)
	case len(in.r.Body) == 0:
		in.built = []byte{}
	default:
		in.built = in.r.Body
	}
	return ""
}
