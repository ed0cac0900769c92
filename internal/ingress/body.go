// Package ingress takes requests in under limits: it reads bodies, bounds what is in flight, limits rates, and makes
// dedupe keys.
package ingress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
)

var (
	// ErrBodyTooLarge means that the body is larger than the limit. Its rest was not read.
	ErrBodyTooLarge = errors.New("body is larger than the limit")
	// ErrBudget means that all bodies together take as much memory as they may.
	ErrBudget = errors.New("memory for bodies in flight is used up")
)

const (
	// firstRead is the most memory that a request gets on its word alone. What a sender claims in Content-Length is no
	// fact: many that claim megabytes and then send slowly must not hold megabytes.
	firstRead = 32 << 10
	// emptyReads is how often in a row a reader may return nothing before it counts as broken.
	emptyReads = 100
)

// ReadBody reads a whole body of at most limit bytes. contentLength is what the request claims, -1 when it claims
// nothing. No body gives an empty slice, not nil.
//
// Before each byte of memory is taken grow is asked for it; n is in addition to what was asked for before. The sum of
// what grow granted is the caller's to release, also after an error. While the buffer is enlarged the old one lives on
// for the moment of copying; that is not asked for.
//
// Errors: ErrBodyTooLarge, at once when the claim itself is too large; ErrBudget when grow refuses; io.ErrUnexpectedEOF
// when the body ends before its claimed length; the context's, looked at between reads; or the reader's own, for which
// see IsTimeout.
func ReadBody(ctx context.Context, r io.Reader, contentLength, limit int64, grow func(n int64) bool) ([]byte, error) {
	if contentLength > limit {
		return nil, ErrBodyTooLarge
	}
	body, err := enlarge(nil, contentLength, limit, grow)
	if err != nil {
		return nil, err
	}
	empty := 0
	for {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("reading body: %w", err)
		}
		into := body[len(body):cap(body)]
		atLimit := int64(len(body)) >= limit
		if atLimit {
			// Only whether there is one more byte matters now, and it must not cost memory that the limit does not grant.
			into = make([]byte, 1)
		}
		n, err := r.Read(into)
		switch {
		case n > 0 && atLimit:
			return nil, ErrBodyTooLarge
		case n > 0:
			body, empty = body[:len(body)+n], 0
		default:
			empty++
		}
		switch {
		case errors.Is(err, io.EOF) && int64(len(body)) < contentLength:
			return nil, fmt.Errorf("reading body: %w", io.ErrUnexpectedEOF)
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil:
			return nil, fmt.Errorf("reading body: %w", err)
		case empty == emptyReads:
			return nil, fmt.Errorf("reading body: %w", io.ErrNoProgress)
		}
		if len(body) == cap(body) && int64(len(body)) < limit {
			if body, err = enlarge(body, contentLength, limit, grow); err != nil {
				return nil, err
			}
		}
	}
}

// enlarge doubles the buffer, but not beyond what the claimed length or the limit say is needed.
func enlarge(body []byte, contentLength, limit int64, grow func(n int64) bool) ([]byte, error) {
	have := int64(cap(body))
	want := max(2*have, firstRead)
	// One byte more than claimed: a reader may report the end of the body only at the read after the last byte.
	if contentLength >= have && contentLength < want {
		want = contentLength + 1
	}
	want = min(want, limit)
	if !grow(want - have) {
		return nil, ErrBudget
	}
	larger := make([]byte, len(body), want)
	copy(larger, body)
	return larger, nil
}

// IsTimeout reports whether an error of ReadBody means that the sender was too slow.
func IsTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}
