package verify

import (
	"strings"

	"github.com/caddy-anvil/anvil/internal/jsonptr"
)

// ebayScheme has its signature in a JSON object in base64, and two kinds of secrets: the public key, and the token with
// which the challenge is answered.
type ebayScheme struct{}

var ebaySigned = &signed{sig: "X-Ebay-Signature", alg: ecdsaSHA1, enc: base64Encoding, parse: parseEbay, render: renderEbay}

func isEbayToken(secret string) bool {
	_, err := readPublicKeys(secret, ecdsaKind)
	return err != nil
}

func (ebayScheme) compile(c *compilation) (checker, error) {
	out := &anyOf{}
	for i, s := range c.secrets {
		if isEbayToken(s) {
			continue
		}
		checker, err := ebaySigned.compile(c.with([]string{s}))
		if err != nil {
			return nil, err
		}
		out.add(checker, i)
	}
	if len(out.checkers) == 0 {
		return refuseAll{}, nil
	}
	return out, nil
}

func (ebayScheme) describe(p *Provider) { ebaySigned.describe(p) }

func parseEbay(in *input, value string) Reason {
	text, ok := decodeBase64(strictBase64, nil, value)
	if !ok {
		return ReasonMalformed
	}
	doc, ok := jsonptr.Document(text)
	if !ok {
		return ReasonMalformed
	}
	if !strings.EqualFold(textAt(jsonptr.Pointer{"alg"}, doc), "ecdsa") || !strings.EqualFold(textAt(jsonptr.Pointer{"digest"}, doc), "SHA1") {
		return ReasonUnsupported
	}
	if sig := textAt(jsonptr.Pointer{"signature"}, doc); sig != "" {
		in.sigs = append(in.sigs, sig)
		return ""
	}
	return ReasonMalformed
}

func renderEbay(_ *input, signature string) string {
	return base64Encoding.encode([]byte(`{"alg":"ecdsa","signature":` + quoted(signature) + `,"digest":"SHA1"}`))
}
