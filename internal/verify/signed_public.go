package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
)

// proveByPublicKey may stop at the first match: there is no secret that its time could tell about.
func (c *signedChecker) proveByPublicKey(ctx context.Context, st *state) Verdict {
	alg := c.spec.alg
	var sigs [][]byte
	for _, text := range st.in.sigs {
		if len(text) > maxEncoded {
			continue
		}
		if sig, ok := c.spec.enc.decode(nil, text); ok && len(sig) > 0 {
			sigs = append(sigs, sig)
		}
	}
	if len(sigs) == 0 {
		return Verdict{Reason: ReasonMalformed}
	}
	keys, reason := c.public.find(ctx, st.in.kid)
	if reason != "" {
		return Verdict{Reason: reason}
	}
	verdict := Verdict{Reason: ReasonMissing}
	c.variants(&st.in, func(n int, t template) bool {
		st.msg.b = st.msg.b[:0]
		if !t.write(&st.in, "", &st.msg) {
			return true
		}
		verdict.Reason = ReasonNoMatch
		for _, k := range keys {
			for _, sig := range sigs {
				if alg.verify(k.key, st.msg.b, sig) {
					verdict = Verdict{OK: true, Signature: covered(alg.name, st.msg.b), Secret: k.secret, variant: n}
					return false
				}
			}
		}
		return true
	})
	return verdict
}

// covered stands for a public-key signature in dedupe keys: it is the hash of what is signed. Signatures themselves will
// not do, as anyone can turn one ECDSA signature into another that is valid for the same message.
func covered(name string, message []byte) string {
	sum := sha256.Sum256(message)
	return name + "=" + hex.EncodeToString(sum[:])
}
