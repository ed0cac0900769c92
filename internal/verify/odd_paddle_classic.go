package verify

import (
	"fmt"
	"slices"
	"strings"
)

// paddleClassicScheme signs PHP's serialization of all other form fields.
type paddleClassicScheme struct{}

var paddleClassicSigned = &signed{sig: "form:p_signature", alg: rsaSHA1, enc: base64Encoding, message: []string{"{sig.built}"}, prepare: phpSerialize, shape: shapePaddle}

func (paddleClassicScheme) compile(c *compilation) (checker, error) {
	return paddleClassicSigned.compile(c)
}
func (paddleClassicScheme) describe(p *Provider) { paddleClassicSigned.describe(p) }

func phpSerialize(in *input) Reason {
	pairs, ok := formPairs(in.r.Body)
	if !ok {
		return ReasonMalformed
	}
	pairs = slices.DeleteFunc(pairs, func(p pair) bool { return p.key == "p_signature" })
	slices.SortStableFunc(pairs, func(a, b pair) int { return strings.Compare(a.key, b.key) })
	for i := 1; i < len(pairs); i++ {
		if pairs[i].key == pairs[i-1].key {
			return ReasonRepeated
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "a:%d:{", len(pairs))
	for _, p := range pairs {
		fmt.Fprintf(&b, `s:%d:"%s";s:%d:"%s";`, len(p.key), p.key, len(p.value), p.value)
	}
	b.WriteByte('}')
	in.built = []byte(b.String())
	return ""
}
