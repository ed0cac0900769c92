package verify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
	"strings"
	"time"
)

// reshaped checks, and reads facts from, another form of the request.
type reshaped struct {
	checker
	reshape func(r *Request) *Request
}

func (s *reshaped) check(ctx context.Context, r *Request, now time.Time) Verdict {
	return s.checker.check(ctx, s.reshape(r), now)
}

func (s *reshaped) signedHash(r *Request, v Verdict, now time.Time) ([sha256.Size]byte, bool) {
	if c, ok := s.checker.(covering); ok {
		return c.signedHash(s.reshape(r), v, now)
	}
	return [sha256.Size]byte{}, false
}

// multipartFields bounds the parts of a multipart form: one with so many, or more, is not read.
const multipartFields = 1000

// multipartPairs returns the fields of a multipart form that are no files.
func multipartPairs(r *Request) ([]pair, bool) {
	mediaType, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || mediaType != "multipart/form-data" || params["boundary"] == "" {
		return nil, false
	}
	var pairs []pair
	parts := multipart.NewReader(bytes.NewReader(r.Body), params["boundary"])
	for range multipartFields {
		part, err := parts.NextRawPart()
		if err == io.EOF { //nolint:errorlint // it returns exactly that
			return pairs, true
		}
		if err != nil {
			return nil, false
		}
		if part.FileName() != "" {
			continue
		}
		value, err := io.ReadAll(part)
		if err != nil {
			return nil, false
		}
		pairs = append(pairs, pair{part.FormName(), string(value)})
	}
	return nil, false
}

func multipartToForm(r *Request) *Request {
	pairs, ok := multipartPairs(r)
	if !ok {
		return r
	}
	var form strings.Builder
	for i, p := range pairs {
		if i > 0 {
			form.WriteByte('&')
		}
		form.WriteString(url.QueryEscape(p.key) + "=" + url.QueryEscape(p.value))
	}
	other := *r
	other.Body = []byte(form.String())
	return &other
}
