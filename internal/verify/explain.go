package verify

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Hint says what would have made a refused request genuine. It was tried, not guessed. It never holds a secret, the body
// or a signature.
type Hint struct {
	// Code is stable, for metrics and tests.
	Code string
	// Text is for the operator.
	Text string
}

// maxExplained is the largest body for which hints are looked for. Hundreds of verifications of one that is larger would
// let strangers spend our time: at 256 KiB it was seconds for schemes that sort a form.
const maxExplained = 64 << 10

// explanation is the search for hints about one request.
type explanation struct {
	ctx   context.Context //nolint:containedctx // it lives as long as the one call that it is made for
	v     *Verifier
	r     *Request
	now   time.Time
	hints []Hint
}

// Explain looks for what is wrong with a request that Verify has refused. previous are further secrets to try, such as
// those of the configuration before. It costs up to hundreds of verifications, so callers must limit how often they ask, and
// bound the time with ctx: when that ends, what was found until then is all there is.
func (v *Verifier) Explain(ctx context.Context, r *Request, now time.Time, previous []string) []Hint {
	if len(r.Body) > maxExplained || v.row.scheme == nil {
		return nil
	}
	switch verdict := v.Verify(ctx, r, now); {
	case verdict.OK:
		return nil
	case verdict.Reason == ReasonNoSecret:
		return []Hint{{"no_secret", "no secret is configured yet, so that only the registration is answered"}}
	case verdict.Reason == ReasonKeyUnavailable:
		return []Hint{{"key_unavailable", "the provider's certificate or key set could not be fetched; is it reachable from here?"}}
	}
	e := &explanation{ctx: ctx, v: v, r: r, now: now}
	e.aboutTime()
	// What follows asks for the signature only, so that a clock does not hide another mistake.
	if len(e.hints) == 0 {
		e.aboutSecrets(previous)
		e.aboutBody()
		e.aboutURL()
		e.aboutForm()
	}
	if len(e.hints) == 0 {
		e.aboutProvider()
	}
	return e.hints
}

func (e *explanation) add(code, text string) { e.hints = append(e.hints, Hint{code, text}) }

func (e *explanation) secrets() []string {
	secrets := make([]string, e.v.secrets)
	for i := range secrets {
		secrets[i] = e.v.secretAt(i)
	}
	return secrets
}

// checker compiles the scheme with other secrets, and accepts any time.
func (e *explanation) checker(secrets []string) checker {
	c, err := e.v.row.scheme.compile(&compilation{
		row: e.v.row, secrets: secrets, options: e.v.options, fetch: e.v.fetch, anyTime: true,
	})
	if err != nil || len(secrets) == 0 && !e.v.row.keyless {
		return refuseAll{}
	}
	return c
}

func (e *explanation) accepted(c checker, r *Request) bool {
	return !e.over() && c.check(e.ctx, r, e.now).OK
}

// over reports whether the time for the search is up.
func (e *explanation) over() bool { return e.ctx.Err() != nil }

// aboutTime finds a signature that is right but for its time.
func (e *explanation) aboutTime() {
	c := e.checker(e.secrets())
	if verdict := c.check(e.ctx, e.r, e.now); verdict.OK && !e.over() {
		text := "the signature is right, but its time is out of range"
		if t, ok := timeOf(c, e.r, verdict); ok {
			skew, side := e.now.Sub(t).Round(time.Second), "behind"
			if skew < 0 {
				skew, side = -skew, "ahead of"
			}
			text = fmt.Sprintf("the signature is right, but its time is %.0f s %s this machine's clock: "+
				"is the clock right, is this a replay, or is tolerance too narrow?", skew.Seconds(), side)
		}
		e.add("clock", text)
		return
	}
	for _, s := range signedIn(c) {
		for _, unit := range timeUnits {
			if !s.spec.timed() || unit == s.spec.unit {
				continue
			}
			spec := s.spec
			spec.unit = unit
			if e.tried(spec, e.secrets()) {
				e.add("timestamp_unit", "the signature is right if its time is taken as "+unit.name+" instead of "+s.spec.unit.name)
				return
			}
		}
	}
}

// tried compiles another description of the scheme and reports whether it accepts the request.
func (e *explanation) tried(spec signed, secrets []string) bool {
	if len(secrets) == 0 || e.over() {
		return false
	}
	c, err := spec.compile(&compilation{row: e.v.row, secrets: secrets, options: e.v.options, fetch: e.v.fetch, anyTime: true})
	return err == nil && e.accepted(c, e.r)
}

// aboutSecrets tries what commonly happens to a secret on its way into a configuration.
func (e *explanation) aboutSecrets(previous []string) {
	for i, s := range previous {
		if s != "" && e.accepted(e.checker([]string{s}), e.r) {
			e.add("previous_secret", fmt.Sprintf("it matches previous secret %d: the sender has not got the new one", i+1))
			return
		}
	}
	for _, change := range secretChanges {
		for i, s := range e.secrets() {
			other := change.make(s)
			if other != "" && other != s && e.accepted(e.checker([]string{other}), e.r) {
				e.add(change.code, fmt.Sprintf("it matches secret %d %s", i+1, change.says))
				return
			}
		}
	}
}

var secretChanges = []struct {
	code, says string
	make       func(s string) string
}{
	{"secret_white_space", "less the white space around it", strings.TrimSpace},
	{"secret_quotes", "less the quotes around it", func(s string) string { return strings.Trim(s, `"'`) }},
	{"secret_newline", "with a line break behind it, as the sender has it", func(s string) string { return s + "\n" }},
	{"secret_whsec", "less its prefix whsec_", func(s string) string { return strings.TrimPrefix(s, "whsec_") }},
	{"secret_base64", "when that is decoded from base64", func(s string) string {
		b, err := readBase64Key(strings.TrimPrefix(s, "whsec_"))
		if err != nil {
			return ""
		}
		return string(b)
	}},
	{"secret_hex", "when that is decoded from hex", func(s string) string {
		b, err := readHexKey(s)
		if err != nil {
			return ""
		}
		return string(b)
	}},
}

// aboutBody tries what commonly happens to a body on its way here.
func (e *explanation) aboutBody() {
	c := e.checker(e.secrets())
	for _, change := range bodyChanges {
		body := change.make(e.r.Body)
		if body == nil || bytes.Equal(body, e.r.Body) {
			continue
		}
		r := *e.r
		r.Body = body
		if e.accepted(c, &r) {
			e.add(change.code, "it matches "+change.says)
			return
		}
	}
}

var bodyChanges = []struct {
	code, says string
	make       func(body []byte) []byte
}{
	{"body_trailing_newline", "the body less its trailing line break, which something has added", func(b []byte) []byte { return bytes.TrimRight(b, "\r\n") }},
	{"body_missing_newline", "the body with a line break behind it, which something has taken off", func(b []byte) []byte { return append(slices.Clone(b), '\n') }},
	{"body_missing_crlf", "the body with CR LF behind it, which something has taken off", func(b []byte) []byte { return append(slices.Clone(b), "\r\n"...) }},
	{"body_line_ends", "the body with LF instead of CR LF, which something has changed", func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")) }},
	{"body_line_ends", "the body with CR LF instead of LF, which something has changed", func(b []byte) []byte {
		return bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r\n"))
	}},
	{"body_byte_order_mark", "the body less its byte order mark", func(b []byte) []byte { return bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")) }},
	{"body_reformatted", "the body without blanks between its JSON elements: something in front has formatted it anew", func(b []byte) []byte {
		var compact bytes.Buffer
		if json.Compact(&compact, b) != nil {
			return nil
		}
		return compact.Bytes()
	}},
	{"body_form", "the field payload of the form: the sender is set to send JSON as a form", func(b []byte) []byte {
		if values := formValues(b, "payload"); len(values) == 1 {
			return []byte(values[0])
		}
		return nil
	}},
	{"body_empty", "an empty body: something in front has filled it in, or the sender does not sign it", func([]byte) []byte { return []byte{} }},
}

// aboutURL tries what proxies do to a URL, for schemes that sign it.
func (e *explanation) aboutURL() {
	c := e.checker(e.secrets())
	for _, change := range urlChanges {
		other := change.make(e.r)
		if other == "" || other == e.r.URL {
			continue
		}
		r := *e.r
		r.URL = other
		if e.accepted(c, &r) {
			e.add(change.code, "it matches "+change.says)
			return
		}
	}
}

var urlChanges = []struct {
	code, says string
	make       func(r *Request) string
}{
	{"url_reached", "the URL by which the request came: public_url is not what the sender has", func(r *Request) string { return r.Reached }},
	{"url_forwarded", "the URL of the X-Forwarded headers: add the proxy to trusted_proxies, or set public_url", func(r *Request) string {
		if r.Header.Get("X-Forwarded-Host")+r.Header.Get("X-Forwarded-Proto") == "" {
			return ""
		}
		host, uri := splitURL(r.URL)
		return cmp.Or(r.Header.Get("X-Forwarded-Proto"), "https") + "://" + cmp.Or(r.Header.Get("X-Forwarded-Host"), host) + uri
	}},
	{"url_scheme", "the URL with https instead of http: set public_url", func(r *Request) string {
		if rest, ok := strings.CutPrefix(r.URL, "http://"); ok {
			return "https://" + rest
		}
		return ""
	}},
	{"url_scheme", "the URL with http instead of https: the sender has an http URL, or set public_url", func(r *Request) string {
		if rest, ok := strings.CutPrefix(r.URL, "https://"); ok {
			return "http://" + rest
		}
		return ""
	}},
	{"url_slash", "the URL with, or without, a slash at the end of its path", func(r *Request) string {
		before, query, found := strings.Cut(r.URL, "?")
		if found {
			query = "?" + query
		}
		if rest, ok := strings.CutSuffix(before, "/"); ok {
			return rest + query
		}
		return before + "/" + query
	}},
	{"url_query", "the URL without its query", func(r *Request) string {
		before, _, _ := strings.Cut(r.URL, "?")
		return before
	}},
	{"url_port", "the URL without its port", func(r *Request) string {
		host, uri := splitURL(r.URL)
		scheme, _, _ := strings.Cut(r.URL, "://")
		if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
			return scheme + "://" + host[:i] + uri
		}
		return ""
	}},
}
