package verify

import (
	"bytes"
	"context"
	"time"

	"github.com/caddy-anvil/anvil/internal/jsonptr"
)

// constantContactScheme is a detached JWS in a header of which the name must be given.
type constantContactScheme struct{}

func (constantContactScheme) signed(header string) detachedJWS {
	return detachedJWS{
		header: header, algorithms: []string{"RS256"}, kind: rsaKind, payload: rawPayload, headTime: "ts", unit: eitherUnit,
		keysURL: "https://developer.constantcontact.com/.well-known/jwks.json",
	}
}

func (s constantContactScheme) compile(c *compilation) (checker, error) {
	return s.signed(c.options["header"]).compile(c)
}

func (s constantContactScheme) describe(p *Provider) { s.signed("").describe(p) }

// lagoScheme is a JWT of which a claim is the body.
type lagoScheme struct{}

type lagoChecker struct{ *jwtChecker }

var lagoJWT = jwtScheme{
	header: "X-Lago-Signature", algorithms: []string{"RS256"},
	fixed: []fixedHeader{{name: "X-Lago-Signature-Algorithm", value: "jwt"}},
}

func (lagoScheme) compile(c *compilation) (checker, error) {
	inner, err := lagoJWT.compile(c)
	if err != nil {
		return nil, err
	}
	return &lagoChecker{inner.(*jwtChecker)}, nil //nolint:forcetypeassert // jwtScheme compiles to nothing else
}

func (lagoScheme) describe(p *Provider) { lagoJWT.describe(p) }

// check compares the claim data, which is a JSON text in a string, with the body.
func (l *lagoChecker) check(ctx context.Context, r *Request, now time.Time) Verdict {
	verdict := l.jwtChecker.check(ctx, r, now)
	if !verdict.OK {
		return verdict
	}
	payload, ok := jsonptr.Document(l.claims(r))
	if !ok {
		return Verdict{Reason: ReasonMalformed}
	}
	data, ok := jsonptr.Pointer{"data"}.Find(payload)
	if !ok || data[0] != '"' {
		return Verdict{Reason: ReasonNoMatch}
	}
	if text, ok := jsonptr.Decoded(data); !ok || !bytes.Equal(text, r.Body) {
		return Verdict{Reason: ReasonNoMatch}
	}
	return verdict
}
