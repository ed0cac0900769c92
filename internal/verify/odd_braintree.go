package verify

import "strings"

// braintreeScheme signs a payload within a form; the signature names the public key.
type braintreeScheme struct{}

func (braintreeScheme) signed(public string) *signed {
	return &signed{
		sig: "form:bt_signature", alg: hmacSHA1, key: sha1Key, message: []string{"{sig.form.bt_payload}", "{sig.form.bt_payload}\n"},
		prepare: braintreePayload, shape: shapeBraintree,
		parse: func(in *input, value string) Reason {
			for item := range strings.SplitSeq(value, "&") {
				if key, text, ok := strings.Cut(item, "|"); ok && key == public && len(in.sigs) < maxSignatures {
					in.sigs = append(in.sigs, text)
				}
			}
			return nothingFound(in, strings.Contains(value, "|"))
		},
		render: func(_ *input, signature string) string { return public + "|" + signature },
	}
}

func (b braintreeScheme) compile(c *compilation) (checker, error) {
	out := &anyOf{}
	for i, both := range c.secrets {
		public, private, ok := strings.Cut(both, ":")
		if !ok || public == "" || private == "" {
			return nil, secretError(i, "is not public:private, the two keys with a colon between")
		}
		checker, err := b.signed(public).compile(c.with([]string{private}))
		if err != nil {
			return nil, err
		}
		out.add(checker, i)
	}
	return out, nil
}

func (b braintreeScheme) describe(p *Provider) { b.signed("").describe(p) }

func braintreePayload(in *input) Reason {
	payload, reason := one(formValues(in.r.Body, "bt_payload"))
	if reason != "" {
		return reason
	}
	if isBraintreeChallenge(payload) || strings.ContainsFunc(payload, func(c rune) bool {
		return !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+=/\n", c)
	}) {
		return ReasonMalformed
	}
	return ""
}
