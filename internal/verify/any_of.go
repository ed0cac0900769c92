package verify

import (
	"context"
	"crypto/sha256"
	"slices"
	"time"
)

// anyOf accepts what one of several checkers accepts, each with its own secrets. Which of them a request must satisfy is
// decided by the secrets, never by what the sender offers.
type anyOf struct {
	checkers []checker
	index    [][]int // of the secrets of each checker among all secrets
}

func (a *anyOf) add(c checker, index ...int) {
	a.checkers = append(a.checkers, c)
	a.index = append(a.index, index)
}

func (a *anyOf) check(ctx context.Context, r *Request, now time.Time) Verdict {
	verdict := Verdict{Reason: ReasonMissing}
	for i, c := range a.checkers {
		v := c.check(ctx, r, now)
		if v.OK {
			if v.Secret < len(a.index[i]) {
				v.Secret = a.index[i][v.Secret]
			}
			return v
		}
		// The reason of the one that came furthest says more than that of one whose header is missing.
		if verdict.Reason == ReasonMissing || v.Reason == ReasonNoMatch && verdict.Reason == ReasonUnsupported {
			verdict = v
		}
	}
	return verdict
}

// signedHash implements covering by the checker whose secret proved the request.
func (a *anyOf) signedHash(r *Request, v Verdict, now time.Time) ([sha256.Size]byte, bool) {
	for i, c := range a.checkers {
		if c, ok := c.(covering); ok && slices.Contains(a.index[i], v.Secret) {
			return c.signedHash(r, v, now)
		}
	}
	return [sha256.Size]byte{}, false
}

// requires implements requiring for those that are joined of others with the same headers.
func (a *anyOf) requires() []string {
	if len(a.checkers) == 0 {
		return nil
	}
	names := requiredBy(a.checkers[0])
	for _, c := range a.checkers[1:] {
		also := requiredBy(c)
		var both []string
		for _, n := range names {
			for _, m := range also {
				if n == m {
					both = append(both, n)
				}
			}
		}
		names = both
	}
	return names
}

func requiredBy(c checker) []string {
	if r, ok := c.(requiring); ok {
		return r.requires()
	}
	return nil
}
