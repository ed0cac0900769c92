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

const (
	providerNone = "none"
	// largestBody leaves a store room for headers beside the body: SQLite keeps at most 10^9 bytes in one value.
	largestBody = 512 << 20
)

var (
	dedupeKeys  = []string{"signature", "body", "header", "json", "form", "off"}
	rateScopes  = []string{"ip", "source"}
	healthKinds = []string{"ready", "live"}

	errVerifyMissing = errors.New("verify is missing; write verify <provider> <secret>, or verify none to accept webhooks without proof")
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
	unverified := c.Verify[0].Provider == providerNone
	if c.Dedupe != nil {
		if err := c.Dedupe.validate(); err != nil {
			return err
		}
		if unverified && c.Dedupe.Key == "signature" {
			return errors.New("dedupe signature needs a verified signature, and verify none has none; use dedupe body")
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

func checkVerify(all []VerifyConfig) error {
	if len(all) == 0 {
		return errVerifyMissing
	}
	for i := range all {
		if err := all[i].validate(); err != nil {
			return err
		}
		if all[i].Provider == providerNone && len(all) > 1 {
			return errors.New("verify none must be the only verify: beside it the others prove nothing")
		}
	}
	return nil
}

func (v *VerifyConfig) validate() error {
	opts := v.options()
	switch {
	case v.Provider == "":
		return errors.New("verify needs a provider")
	case v.Provider == providerNone:
		if len(v.Secrets) > 0 || len(opts) > 0 {
			return errors.New("verify none takes no secret and no options")
		}
		return nil
	case !verify.Known(v.Provider):
		known := []string{providerNone}
		for _, p := range verify.Providers() {
			known = append(known, p.ID)
		}
		// There are too many to name them all.
		return fmt.Errorf("unknown provider '%s'%s", v.Provider, or(meant(v.Provider, known), "; caddy anvil providers lists all, and hmac describes one of your own"))
	case len(v.Secrets) == 0:
		return fmt.Errorf("verify %s needs a secret; is an environment variable empty?", v.Provider)
	}
	for i, secret := range v.Secrets {
		if strings.TrimSpace(secret) == "" {
			return fmt.Errorf("secret %d of verify %s is empty; is an environment variable unset?", i+1, v.Provider)
		}
		// In a site block Caddy has turned {path} and {file.name} into placeholders of the request, which has no say in
		// what our secret is.
		if strings.Contains(secret, "{http.") {
			return fmt.Errorf("secret %d of verify %s holds a placeholder of the request; use {env.NAME} or {file./absolute/path}",
				i+1, v.Provider)
		}
	}
	return verify.CheckOptions(v.Provider, opts)
}

// options are the words of the generic scheme.
func (v *VerifyConfig) options() verify.Options {
	o := verify.Options{}
	for word, value := range map[string]string{"signature_header": v.SignatureHeader, "algorithm": v.Algorithm, "encoding": v.Encoding} {
		if value != "" {
			o[word] = value
		}
	}
	if v.Prefix != nil {
		o["prefix"] = *v.Prefix
	}
	return o
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
	if r.Body != "" && (r.Status == http.StatusNoContent || r.Status == http.StatusResetContent) {
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
