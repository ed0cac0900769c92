package verify

import (
	"cmp"
	"strings"
)

// standard is the Standard Webhooks scheme: id, time and body are signed with HMAC (v1) or Ed25519 (v1a). Which of them
// is expected is decided by the kind of the secret, never by what the sender offers.
type standard struct {
	// prefix of the headers, "Webhook-" by default; with or, another that is looked at when a header of the first is missing.
	prefix, or string
	key        *keyForm
	// bare signatures without a version are accepted too.
	bare bool
	// token is the header of an older scheme of the same provider, for secrets that are not whsec_.
	token string
}

func (s standard) v1() *signed {
	first := cmp.Or(s.prefix, "Webhook-")
	places := func(name string) string {
		if s.or == "" {
			return first + name
		}
		return first + name + " | " + s.or + name
	}
	key := s.key
	if key == nil {
		key = whsecKey
	}
	return &signed{
		sig: places("Signature"), ts: places("Timestamp"), id: places("Id"), list: " ", prefix: "v1,", bare: s.bare,
		enc: base64Encoding, key: key, message: []string{"{sig.id}.{sig.timestamp}.{sig.body}"},
	}
}

func (s standard) v1a() *signed {
	asymmetric := s.v1()
	asymmetric.prefix, asymmetric.bare, asymmetric.alg = "v1a,", false, ed25519Alg
	return asymmetric
}

func (s standard) compile(c *compilation) (checker, error) {
	kinds := []struct {
		is      func(secret string) bool
		compile func(c *compilation) (checker, error)
	}{
		{isPublicSecret, s.v1a().compile},
		{func(secret string) bool { return !isPublicSecret(secret) && !s.isToken(secret) }, s.v1().compile},
		{s.isToken, unsignedToken{header: s.token, unless: "Webhook-Signature"}.compile},
	}
	signs := false
	for _, secret := range c.secrets {
		signs = signs || !s.isToken(secret)
	}
	out := &anyOf{}
	for _, kind := range kinds {
		var secrets []string
		var index []int
		for i, secret := range c.secrets {
			// A token beside a signing secret would let a sender choose the weaker proof.
			if kind.is(secret) && (!signs || !s.isToken(secret)) {
				secrets, index = append(secrets, secret), append(index, i)
			}
		}
		if len(secrets) == 0 {
			continue
		}
		checker, err := kind.compile(c.with(secrets))
		if err != nil {
			return nil, err
		}
		out.add(checker, index...)
	}
	if len(out.checkers) == 1 && len(out.index[0]) == len(c.secrets) {
		return out.checkers[0], nil
	}
	return out, nil
}

func (s standard) describe(p *Provider) {
	s.v1().describe(p)
}

func (s standard) isToken(secret string) bool {
	return s.token != "" && !isPublicSecret(secret) && !strings.HasPrefix(secret, "whsec_")
}

func isPublicSecret(secret string) bool { return strings.HasPrefix(secret, "whpk_") }
