package verify

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/caddy-anvil/anvil/internal/jsonptr"
)

// treezorPayload builds object_payload as PHP encodes JSON: without blanks, with / and all that is not ASCII escaped.
func treezorPayload(in *input) Reason {
	reason := compactJSON("/object_payload")(in)
	in.built = escapeAsPHP(in.built)
	return reason
}

// compactJSON builds the JSON text at a place without the blanks that stand around it on the wire.
func compactJSON(place string) func(in *input) Reason {
	f := mustField(place)
	return func(in *input) Reason {
		doc, ok := jsonptr.Document(in.r.Body)
		if !ok {
			return ReasonMissing
		}
		raw, ok := f.path.Find(doc)
		if !ok {
			return ReasonMissing
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, raw); err != nil {
			return ReasonMalformed
		}
		in.built = compact.Bytes()
		return ""
	}
}

// escapeAsPHP escapes what json_encode does in JSON text. Unlike Box's libraries it tells a slash behind an escaped
// backslash from an escaped slash, and leaves DEL alone.
func escapeAsPHP(text []byte) []byte {
	out := make([]byte, 0, len(text)+16)
	escaped := false
	for _, c := range string(text) {
		switch {
		case c == '/' && !escaped:
			out = append(out, '\\', '/')
		case c < utf8.RuneSelf:
			out = append(out, byte(c)) //nolint:gosec // it is below 0x80
		case c > 0xffff:
			hi, lo := utf16.EncodeRune(c)
			out = appendUnicodeEscape(appendUnicodeEscape(out, hi), lo)
		default:
			out = appendUnicodeEscape(out, c)
		}
		escaped = c == '\\' && !escaped
	}
	return out
}

func appendUnicodeEscape(b []byte, c rune) []byte {
	const digits = "0123456789abcdef"
	return append(b, '\\', 'u', digits[c>>12&15], digits[c>>8&15], digits[c>>4&15], digits[c&15])
}

// quoted is a JSON string.
func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return strconv.Quote(s)
	}
	return string(b)
}
