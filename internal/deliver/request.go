package deliver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"github.com/caddy-anvil/anvil/internal/event"
)

// receivedAt is RFC 3339 in UTC with milliseconds.
const receivedAt = "2006-01-02T15:04:05.000Z07:00"

// build makes the request of one attempt.
func build(ctx context.Context, r *Request) (*http.Request, error) {
	p, err := event.DecodePayload(r.Event.Payload)
	if err != nil {
		return nil, err
	}
	u, err := resolve(r.Target.URL, p)
	if err != nil {
		return nil, err
	}
	req := (&http.Request{
		Method: method(p), URL: u, Host: u.Host, Header: headers(r, p),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	if len(p.Body) > 0 || req.Method == http.MethodGet {
		// GetBody stays nil: with it, or by GET without a body, the transport sends a request again by itself when a kept
		// connection breaks, and the endpoint would see more requests than the ledger has rows.
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(p.Body)), int64(len(p.Body))
	}
	return req, nil
}

// method is the stored one. What has a body needs one that has bodies: many servers drop those of GET and DELETE.
func method(p *event.Payload) string {
	switch p.Method {
	case http.MethodPut, http.MethodPatch:
		return p.Method
	case http.MethodGet, http.MethodDelete:
		if len(p.Body) == 0 {
			return p.Method
		}
	}
	return http.MethodPost
}

func headers(r *Request, p *event.Payload) http.Header {
	h := make(http.Header, len(p.Headers)+12)
	named := connectionNames(p)
	for _, line := range p.Headers {
		if passes(line.Name, named) {
			h[line.Name] = append(h[line.Name], line.Value)
		}
	}
	// The transport sends a bodyless request a second time by itself when one of these is present under its canonical
	// name. Header names are case-insensitive on the wire, so the endpoint sees no difference.
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if v, ok := h[name]; ok {
			delete(h, name)
			h[strings.ToLower(name)] = v
		}
	}
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = nil // or the transport writes its own, which the sender never sent
	}
	set := func(name, value string) {
		if value != "" {
			h[name] = []string{escapeControls(value)}
		}
	}
	set("X-Forwarded-For", p.ClientIP)
	set("X-Forwarded-Host", p.Host)
	set("X-Forwarded-Proto", p.Scheme)
	set("Anvil-Job-Id", r.Job.ID.String())
	set("Anvil-Event-Id", r.Event.ID.String())
	set("Anvil-Attempt", strconv.Itoa(r.Attempt))
	set("Anvil-Received-At", r.Event.AcceptedAt.UTC().Format(receivedAt))
	set("Anvil-Source", r.Event.Source)
	set("Anvil-Event-Type", r.Event.Type)
	set("Anvil-Tenant", r.Event.Tenant)
	set("Anvil-Verified", strconv.FormatBool(r.Event.Verified))
	if r.Job.ReplayOf != (event.ID{}) {
		set("Anvil-Replay-Of", r.Job.ReplayOf.String())
	}
	return h
}

// connectionNames are the headers that the sender's Connection header declares to be of one hop only.
func connectionNames(p *event.Payload) map[string]bool {
	names := map[string]bool{}
	for _, line := range p.Headers {
		if line.Name == "Connection" {
			for name := range strings.SplitSeq(line.Value, ",") {
				names[textproto.CanonicalMIMEHeaderKey(textproto.TrimString(name))] = true
			}
		}
	}
	return names
}

// passes reports whether a stored header goes on to the endpoint.
func passes(name string, named map[string]bool) bool {
	if named[name] {
		return false
	}
	// CGI, WSGI and PHP read `X_Forwarded_For` and `X-Forwarded-For` as one variable, so a sender could forge with the
	// underscore what is cut with the hyphen.
	plain := name
	if strings.Contains(name, "_") {
		plain = textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(name, "_", "-"))
	}
	switch plain {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Http2-Settings", "Proxy-Authenticate", "Proxy-Authorization", // of one hop
		"Host", "Content-Length", "Expect", // written anew for this hop
		"Accept-Encoding", "Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range", // the answer is for us
		"Forwarded", "X-Real-Ip", // the sender's claims about where the request came from
		"Proxy": // no such header exists, but CGI makes HTTP_PROXY of it, by which programs then connect to others
		return false
	}
	return !strings.HasPrefix(plain, "X-Forwarded-") && !strings.HasPrefix(plain, "Anvil-")
}

// escapeControls percent-encodes control characters, which would make the whole request unsendable. They come from the
// sender by way of the tenant and event type.
func escapeControls(s string) string {
	control := func(r rune) bool { return r < ' ' || r == 0x7f }
	if !strings.ContainsFunc(s, control) {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		if control(rune(s[i])) {
			fmt.Fprintf(&b, "%%%02X", s[i])
		} else {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}
