package verify

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-anvil/anvil/internal/jsonptr"
)

// checkClaims reads the claims with exact names, after the signature has been found good.
func (j *jwtChecker) checkClaims(payload []byte, r *Request, now time.Time) Reason {
	doc, ok := jsonptr.Document(payload)
	if !ok || doc[0] == '[' {
		return ReasonMalformed
	}
	claims := claims{doc}
	if reason := j.checkTimes(claims, now); reason != "" {
		return reason
	}
	if len(j.issuer) > 0 && !slices.Contains(j.issuer, claims.text("iss")) ||
		len(j.audience) > 0 && !slices.ContainsFunc(claims.list("aud"), func(a string) bool { return slices.Contains(j.audience, a) }) ||
		len(j.account) > 0 && (!slices.Contains(j.account, claims.text("email")) || claims.text("email_verified") != "true") ||
		j.subject && claims.text("sub") != r.URL {
		return ReasonWrongClaim
	}
	for _, name := range j.extra {
		if claims.text(name) == "" {
			return ReasonWrongClaim
		}
	}
	if j.urlHash != "" && !hashIs(hexEncoding, claims.text(j.urlHash), []byte(r.URL)) {
		return ReasonNoMatch
	}
	return j.checkBody(claims, r)
}

func (j *jwtChecker) checkBody(claims claims, r *Request) Reason {
	if j.hash == "" {
		return ""
	}
	given := claims.text(j.hash)
	switch {
	case given == "" && (j.absentOK || j.optional && len(r.Body) == 0):
		return ""
	case given == "", j.optional && len(r.Body) == 0:
		return ReasonNoMatch
	}
	encs := []*encoding{j.hashEnc}
	if j.hashEnc == nil {
		encs = []*encoding{hexEncoding, base64Encoding, base64URL}
	}
	for _, enc := range encs {
		if hashIs(enc, given, r.Body) {
			return ""
		}
	}
	return ReasonNoMatch
}

func hashIs(enc *encoding, given string, of []byte) bool {
	sum := sha256.Sum256(of)
	got, ok := enc.decode(nil, given)
	return ok && string(got) == string(sum[:])
}

func (j *jwtChecker) checkTimes(c claims, now time.Time) Reason {
	if j.anyTime {
		return ""
	}
	if iat, ok, given := c.time("iat"); given || j.maxAge {
		if !ok {
			return ReasonBadTimestamp
		}
		w := j.window
		if !j.maxAge {
			w.past = unbounded
		}
		if reason := w.check(iat, now); reason != "" {
			return reason
		}
	}
	if exp, ok, given := c.time("exp"); given || j.expires {
		switch {
		case !ok:
			return ReasonBadTimestamp
		case !now.Before(exp.Add(j.leeway)):
			return ReasonTooOld
		}
	}
	if nbf, ok, given := c.time("nbf"); given {
		switch {
		case !ok:
			return ReasonBadTimestamp
		case nbf.After(now.Add(max(j.leeway, j.early))):
			return ReasonTooNew
		}
	}
	return ""
}

// claims is the payload of a JWT.
type claims struct{ doc []byte }

func (c claims) text(name string) string { return textAt(jsonptr.Pointer{name}, c.doc) }

// list returns the texts of a claim that is one text or an array of them.
func (c claims) list(name string) []string {
	raw, ok := jsonptr.Pointer{name}.Find(c.doc)
	if !ok {
		return nil
	}
	items, ok := jsonptr.Items(raw, maxItems)
	if !ok {
		return []string{c.text(name)}
	}
	var texts []string
	for _, item := range items {
		if text, ok := jsonptr.Text(item); ok && item[0] == '"' {
			texts = append(texts, string(text))
		}
	}
	return texts
}

// timeOrNone is time for a payload that need not be JSON.
func (c claims) timeOrNone(name string) (t time.Time, ok, given bool) {
	if doc, valid := jsonptr.Document(c.doc); valid {
		return claims{doc}.time(name)
	}
	return time.Time{}, false, false
}

// time returns a numeric date, which may have a fraction or an exponent.
func (c claims) time(name string) (t time.Time, ok, given bool) {
	raw, given := jsonptr.Pointer{name}.Find(c.doc)
	if !given || raw[0] == 'n' {
		return time.Time{}, false, false
	}
	if bytes.ContainsAny(raw, "eE") {
		f, err := strconv.ParseFloat(string(raw), 64)
		return time.Unix(int64(f), 0), err == nil && f >= 0 && f < 1e16, true
	}
	whole, _, _ := strings.Cut(string(raw), ".")
	n, ok := parseDigits(whole)
	return time.Unix(n, 0), ok, true
}
