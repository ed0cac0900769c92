package anvil

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-anvil/anvil/internal/event"
)

// origin is where the sender has sent a request, as far as the request says.
type origin struct{ scheme, host, uri string }

// originOf believes X-Forwarded headers of trusted proxies only. Rewrites have changed r.URL, not the original request.
func originOf(r *http.Request) origin {
	sent := r
	if orig, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		sent = &orig
	}
	o := origin{scheme: "http", host: r.Host, uri: sent.RequestURI}
	if !strings.HasPrefix(o.uri, "/") { // a request line may have the whole URL
		o.uri = sent.URL.RequestURI()
	}
	if r.TLS != nil {
		o.scheme = "https"
	}
	if trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool); trusted {
		if v := forwarded(r, "X-Forwarded-Proto"); v == "http" || v == "https" {
			o.scheme = v
		}
		if v := forwarded(r, "X-Forwarded-Host"); v != "" && !strings.ContainsAny(v, "/?#@\\ ") {
			o.host = v
		}
	}
	return o
}

// forwarded is the value of the proxy next to the sender, which comes first where several have added theirs.
func forwarded(r *http.Request, name string) string {
	v, _, _ := strings.Cut(r.Header.Get(name), ",")
	return strings.TrimSpace(v)
}

// urlOf is the URL as the sender saw it, not a character of its path and query changed.
func (s *source) urlOf(o *origin) string {
	if s.publicURL != "" {
		return s.publicURL + o.uri
	}
	return o.url()
}

func (o *origin) url() string { return o.scheme + "://" + o.host + o.uri }

// payload is the request as it is stored: less the secrets that it brought.
func (s *source) payload(in *incoming, o *origin) *event.Payload {
	p := &event.Payload{
		Method: in.r.Method, Scheme: o.scheme, Host: o.host, URI: cutQuery(o.uri, s.cutQuery), ClientIP: in.clientIP,
		Headers: event.HeaderLines(in.r.Header, s.cutHeaders...), Body: in.sent.Body,
	}
	if scheme, rest, ok := strings.Cut(s.publicURL, "://"); ok {
		p.Scheme = scheme
		p.Host, _, _ = strings.Cut(rest, "/")
	}
	return p
}

// cutQuery takes query parameters out of a URI and leaves the others as they are.
func cutQuery(uri string, names []string) string {
	path, query, found := strings.Cut(uri, "?")
	if len(names) == 0 || !found {
		return uri
	}
	var kept []string
	for pair := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if !slices.Contains(names, name) {
			kept = append(kept, pair)
		}
	}
	if len(kept) == 0 {
		return path
	}
	return path + "?" + strings.Join(kept, "&")
}
