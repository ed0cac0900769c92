package verify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"time"
)

// mailgunScheme signs a time and a token, in a JSON object or in form fields.
type mailgunScheme struct{}

var (
	mailgunJSON = &signed{sig: "/signature/signature", ts: "/signature/timestamp", message: []string{"{sig.timestamp}{sig.json./signature/token}"}, shape: shapeMailgun}
	mailgunForm = &signed{sig: "form:signature", ts: "form:timestamp", message: []string{"{sig.timestamp}{sig.form.token}"}}
)

func (mailgunScheme) compile(c *compilation) (checker, error) {
	inJSON, err := mailgunJSON.compile(c)
	if err != nil {
		return nil, err
	}
	inForm, err := mailgunForm.compile(c)
	if err != nil {
		return nil, err
	}
	return &reshaped{&jsonOrForm{inJSON: inJSON, inForm: inForm}, multipartToForm}, nil
}

func (mailgunScheme) describe(p *Provider) { mailgunJSON.describe(p) }

type jsonOrForm struct{ inJSON, inForm checker }

func (j *jsonOrForm) of(r *Request) checker {
	if body := bytes.TrimLeft(r.Body, " \t\r\n"); len(body) > 0 && body[0] == '{' {
		return j.inJSON
	}
	return j.inForm
}

func (j *jsonOrForm) check(ctx context.Context, r *Request, now time.Time) Verdict {
	return j.of(r).check(ctx, r, now)
}

func (j *jsonOrForm) signedHash(r *Request, v Verdict, now time.Time) ([sha256.Size]byte, bool) {
	if c, ok := j.of(r).(covering); ok {
		return c.signedHash(r, v, now)
	}
	return [sha256.Size]byte{}, false
}
