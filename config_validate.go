package anvil

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-anvil/anvil/internal/ingress"
	"github.com/caddy-anvil/anvil/internal/verify"
)

// largestBody leaves a store room for headers beside the body: SQLite keeps at most 10^9 bytes in one value.
const largestBody = 512 << 20

var (
	dedupeKeys  = []string{"event_id", "signature", "body", "header", "json", "form", "off"}
	rateScopes  = []string{"ip", "source"}
	healthKinds = []string{"ready", "live"}
)

// isReference reports whether c only names a source that is described elsewhere.
func (c *SourceConfig) isReference() bool {
	return reflect.DeepEqual(*c, SourceConfig{Source: c.Source})
}

// maxBody is the limit in force, in bytes.
func (c *SourceConfig) maxBody() int64 {
	if c.MaxBody != 0 {
		return c.MaxBody
	}
	limit := int64(defaultMaxBody)
	for _, v := range c.Verify {
		if p, ok := verify.Lookup(v.Provider); ok {
			limit = max(limit, p.MaxBody)
		}
	}
	return limit
}

// validate checks everything that can be said without the rest of the configuration; whether the queue exists is the
// app's to check. A reference is valid.
func (c *SourceConfig) validate() error {
	if err := checkName("source", c.Source); err != nil {
		return err
	}
	if c.isReference() {
		return nil
	}
	if err := c.validateSettings(); err != nil {
		return fmt.Errorf("source '%s': %w", c.Source, err)
	}
	return nil
}

func (c *SourceConfig) validateSettings() error {
	err := checkSet(
		bound{"max_body", c.MaxBody, largestBody, bytesUnit},
		bound{"max_in_flight", int64(c.MaxInFlight), 0, countUnit},
		bound{"max_in_flight bytes", c.MaxInFlightBytes, 0, bytesUnit},
		bound{"read_timeout", int64(c.ReadTimeout), int64(longestTimeout), timeUnit},
	)
	if err != nil {
		return err
	}
	if err := checkVerify(c.Verify); err != nil {
		return err
	}
	if err := checkPublicURL(c.PublicURL); err != nil {
		return err
	}
	if c.Dedupe != nil {
		if err := c.Dedupe.validate(); err != nil {
			return err
		}
		if err := c.checkDedupeKey(); err != nil {
			return err
		}
	}
	if err := checkTenant(c.Tenant); err != nil {
		return err
	}
	if c.Queue != "" {
		if err := checkName("queue", c.Queue); err != nil {
			return err
		}
	}
	for i := range c.Endpoints {
		if err := c.Endpoints[i].validate(); err != nil {
			return err
		}
	}
	if err := checkEndpointNames(c.Endpoints); err != nil {
		return err
	}
	for _, r := range c.RateLimit {
		if err := r.validate(); err != nil {
			return err
		}
	}
	if err := checkRateScopes(c.RateLimit); err != nil {
		return err
	}
	if c.Respond != nil {
		if err := c.Respond.validate(); err != nil {
			return err
		}
	}
	return c.checkRoom()
}

// checkRoom refuses a byte budget in which the largest body never fits: such a webhook would get 429 for ever.
func (c *SourceConfig) checkRoom() error {
	budget := c.MaxInFlightBytes
	if budget == 0 {
		budget = defaultMaxInFlightBytes
	}
	if body := c.maxBody(); body > budget {
		return fmt.Errorf("max_in_flight leaves %s for bodies, but one body may have %s; raise it or lower max_body",
			humanize.IBytes(uint64(budget)), humanize.IBytes(uint64(body))) //nolint:gosec // both are positive
	}
	return nil
}

func (c *DedupeConfig) validate() error {
	if err := checkSet(bound{"ttl", int64(c.TTL), 0, timeUnit}); err != nil {
		return err
	}
	switch {
	case c.Key == "":
		if len(c.Fields) > 0 {
			return errors.New("dedupe has fields but no key: header, json or form")
		}
		return nil
	case !slices.Contains(dedupeKeys, c.Key):
		return fmt.Errorf("unrecognized dedupe key '%s'%s", c.Key, suggest(c.Key, dedupeKeys))
	case c.Key == "off" && c.TTL != 0:
		return errors.New("dedupe off remembers no keys, so it takes no ttl")
	}
	if _, err := ingress.NewKeys(ingress.KeyRule{Kind: c.Key, Fields: c.Fields}); err != nil {
		return fmt.Errorf("dedupe %s: %w", c.Key, err)
	}
	return nil
}

// checkDedupeKey refuses keys that the source's webhooks never have.
func (c *SourceConfig) checkDedupeKey() error {
	for i := range c.Verify {
		v := &c.Verify[i]
		p, _ := verify.Lookup(v.Provider)
		switch proves := p != nil && p.Proves; {
		case c.Dedupe.Key == "signature" && !proves:
			return fmt.Errorf("dedupe signature needs a verified signature, and verify %s has none; use dedupe body", v.Provider)
		case c.Dedupe.Key == "event_id" && v.Options["event_id"] == "" && (p == nil || p.EventID == ""):
			return fmt.Errorf("dedupe event_id: no id of events is known for verify %s; use body, or json <pointer> with a field that is the same at each repeat", v.Provider)
		}
	}
	return nil
}

// checkPublicURL wants a base to which the path of a request can be appended.
func checkPublicURL(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil:
		return fmt.Errorf("public_url '%s' is not a URL as senders have it; write for example https://hooks.example.com", text)
	case strings.ContainsAny(text, "?#{"):
		return errors.New("public_url takes no query, fragment or placeholder: it is the part before the path of each request")
	}
	return nil
}

// checkTenant insists on a placeholder: a fixed tenant is the same for every request and so tells nothing apart.
func checkTenant(tenant string) error {
	if tenant == "" {
		return nil
	}
	open := strings.IndexByte(tenant, '{')
	if open < 0 || !strings.Contains(tenant[open:], "}") {
		return fmt.Errorf("tenant '%s' is not a placeholder; write for example {host}", tenant)
	}
	unknown, _ := unknownPlaceholders(tenant)
	if unknown != "" {
		return fmt.Errorf("unknown placeholder {%s}; a request has for example {http.request.host} and {http.request.header.X-Name}", unknown)
	}
	return nil
}

var placeholderPattern = regexp.MustCompile(`\{([^{}]+)\}`)

// unknownPlaceholders finds a placeholder that no request can have, and one that a request may or may not have: those of
// other modules, and of TLS, are only known when a request comes.
func unknownPlaceholders(text string) (never, perhaps string) {
	// Made for tests, and the only replacer that knows the names of HTTP without a server.
	repl := caddyhttp.NewTestReplacer(&http.Request{URL: &url.URL{}, Header: http.Header{}})
	for _, m := range placeholderPattern.FindAllStringSubmatch(text, -1) {
		name := m[1]
		_, known := repl.Get(name)
		ofCaddy := !strings.Contains(name, ".") || strings.HasPrefix(name, "http.request.") && !strings.HasPrefix(name, "http.request.tls.")
		switch {
		case known:
		case ofCaddy:
			never = name
		default:
			perhaps = name
		}
	}
	return never, perhaps
}

func (r *RateLimitConfig) validate() error {
	if !slices.Contains(rateScopes, r.Scope) {
		return fmt.Errorf("unrecognized rate_limit scope '%s'%s", r.Scope, suggest(r.Scope, rateScopes))
	}
	if err := (bound{"rate_limit events", int64(r.Events), 0, countUnit}).check(); err != nil {
		return err
	}
	return bound{"rate_limit window", int64(r.Window), 0, timeUnit}.check()
}

func checkRateScopes(all []RateLimitConfig) error {
	seen := map[string]bool{}
	for _, r := range all {
		if seen[r.Scope] {
			return fmt.Errorf("rate_limit %s already specified", r.Scope)
		}
		seen[r.Scope] = true
	}
	return nil
}

func (r *RespondConfig) validate() error {
	if r.Status != 0 {
		if err := checkRespondStatus(r.Status); err != nil {
			return err
		}
	}
	if r.Body != nil && *r.Body != "" && (r.Status == http.StatusNoContent || r.Status == http.StatusResetContent) {
		return fmt.Errorf("respond %d has no body by the rules of HTTP; leave it out or use 200", r.Status)
	}
	return nil
}

func checkRespondStatus(status int) error {
	if status < 200 || status > 299 {
		return fmt.Errorf("respond status must be from 200 to 299, not %d: any other tells the sender that its webhook was not accepted", status)
	}
	return nil
}

func (c *HealthConfig) validate() error {
	if c.Kind != "" && !slices.Contains(healthKinds, c.Kind) {
		return fmt.Errorf("unrecognized kind of health check '%s'%s", c.Kind, suggest(c.Kind, healthKinds))
	}
	return nil
}
