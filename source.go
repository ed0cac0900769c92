package anvil

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/ingress"
	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/verify"
)

const (
	defaultTTL         = 168 * time.Hour
	defaultMaxInFlight = 1000
	defaultReadTimeout = 10 * time.Second
	// minSecret is the least length of a secret that the user makes up: 16 characters of any kind are beyond guessing.
	minSecret = 16
)

// neverStored are request headers whose values are credentials for this server or its sites, not for the endpoint.
var neverStored = []string{"Authorization", "Proxy-Authorization", "Cookie"}

// source is a SourceConfig ready for requests. All sites that name it share it, and so its limits.
type source struct {
	cfg   SourceConfig
	place string
	log   *zap.Logger

	verifiers []*verify.Verifier // empty: verify none
	fetch     verify.Fetcher
	proof     string             // how it verifies, for logs
	keyKind   string
	keys      *ingress.Keys // nil: dedupe off
	ttl       time.Duration
	tenant    string
	jobs      []jobPlan

	maxBody     int64
	readTimeout time.Duration
	inFlight    *ingress.InFlight
	byIP, all   *ingress.RateLimiter
	respond     RespondConfig
	cut         []string

	accepted, duplicate prometheus.Counter // from start on
}

// jobPlan is a job that each event of the source gets.
type jobPlan struct {
	queue, endpoint string
	observed        bool
	maxPending      int
}

// newSource logs to log what the configuration's author should know, and to flood what senders cause.
func newSource(cfg *SourceConfig, maxPending int, log, flood *zap.Logger) (*source, error) {
	s := &source{
		cfg: *cfg, log: flood.With(zap.String("source", cfg.Source)),
		ttl: defaultTTL, tenant: cfg.Tenant, maxBody: cfg.maxBody(), readTimeout: orDefault(cfg.ReadTimeout, defaultReadTimeout),
		inFlight: ingress.NewInFlight(int64(or(cfg.MaxInFlight, defaultMaxInFlight)), or(cfg.MaxInFlightBytes, defaultMaxInFlightBytes)),
		respond:  RespondConfig{Status: http.StatusAccepted},
		cut:      slices.Clone(neverStored),
		fetch:    verify.NewHTTPFetcher(nil, time.Now),
	}
	for i := range cfg.Verify {
		if err := s.addVerifier(&cfg.Verify[i], log); err != nil {
			return nil, err
		}
	}
	s.proof = providerNone
	for i, v := range s.verifiers {
		if i == 0 {
			s.proof = v.String()
		} else {
			s.proof += " or " + v.String()
		}
	}
	if _, perhaps := unknownPlaceholders(cfg.Tenant); perhaps != "" && !strings.HasPrefix(perhaps, "http.request.tls.") {
		log.Warn("the tenant's placeholder is not one of Caddy's own; unless another module sets it, each webhook gets 503",
			zap.String("source", cfg.Source), zap.String("placeholder", perhaps))
	}
	if err := s.setKeys(cfg.Dedupe); err != nil {
		return nil, err
	}
	for _, r := range cfg.RateLimit {
		limiter := ingress.NewRateLimiter(r.Events, time.Duration(r.Window))
		if r.Scope == "ip" {
			s.byIP = limiter
		} else {
			s.all = limiter
		}
	}
	if r := cfg.Respond; r != nil {
		s.respond = RespondConfig{Status: or(r.Status, http.StatusAccepted), Body: r.Body}
	}
	for i := range cfg.Endpoints {
		s.jobs = append(s.jobs, jobPlan{queue: cfg.queue(), endpoint: cfg.Source + "/" + cfg.Endpoints[i].name(), maxPending: maxPending})
	}
	if len(s.jobs) == 0 {
		s.jobs = []jobPlan{{queue: cfg.queue(), endpoint: cfg.Source + "/", observed: true}}
	}
	return s, nil
}

func (s *source) addVerifier(c *VerifyConfig, log *zap.Logger) error {
	if c.Provider == providerNone {
		return nil
	}
	secrets, err := resolveSecrets(c)
	if err != nil {
		return err
	}
	v, err := verify.New(c.Provider, secrets, c.options(), s.fetch)
	if err != nil {
		return err
	}
	provider, _ := verify.Lookup(c.Provider)
	log = log.With(zap.String("source", s.cfg.Source), zap.String("provider", c.Provider))
	for i, secret := range secrets {
		switch short := utf8.RuneCountInString(secret) < minSecret; {
		case short && provider.Generic:
			return fmt.Errorf("verify %s: secret %d has fewer than %d characters, which can be guessed; make one with: openssl rand -hex 32", c.Provider, i+1, minSecret)
		case short:
			log.Warn("a secret has fewer than 16 characters and may be guessed; choose a longer one at the provider", zap.Int("secret", i+1))
		}
		if strings.TrimSpace(secret) != secret {
			log.Warn("a secret begins or ends with white space, which is taken as part of it", zap.Int("secret", i+1))
		}
	}
	if strings.ContainsAny(c.SignatureHeader, "_.") {
		log.Warn("Caddy drops request headers with an underscore or a dot in their name unless the server allows them "+
			"(servers > expected_underscore_headers, expected_dot_headers)", zap.String("header", c.SignatureHeader))
	}
	s.verifiers = append(s.verifiers, v)
	s.cut = append(s.cut, v.Carries().Headers...)
	return nil
}

// resolveSecrets replaces placeholders. Errors never show the text: an unknown placeholder may be a secret with braces.
func resolveSecrets(c *VerifyConfig) ([]string, error) {
	repl := caddy.NewReplacer()
	var all []string
	for i, raw := range c.Secrets {
		secret, err := repl.ReplaceOrErr(raw, true, true)
		if err != nil || secret == "" {
			return nil, fmt.Errorf("verify %s: secret %d%s is empty, or holds an unknown placeholder; is its variable or file set? (a literal brace is written \\{)",
				c.Provider, i+1, nameOfPlaceholder(raw))
		}
		if !strings.HasPrefix(raw, "{file.") || strings.Index(raw, "}") != len(raw)-1 {
			all = append(all, secret)
			continue
		}
		before := len(all)
		for line := range strings.Lines(secret) {
			if line = strings.TrimRight(line, "\r\n"); strings.TrimSpace(line) != "" {
				all = append(all, line)
			}
		}
		if len(all) == before {
			return nil, fmt.Errorf("verify %s: the file of secret %d has no line with a secret", c.Provider, i+1)
		}
	}
	return all, nil
}

var nothingButPlaceholder = regexp.MustCompile(`^\{(env|file)\.[^{}]+\}$`)

// nameOfPlaceholder shows what was written where that is a variable's or a file's name and cannot be a secret.
func nameOfPlaceholder(raw string) string {
	if nothingButPlaceholder.MatchString(raw) {
		return " " + raw
	}
	return ""
}

func (s *source) setKeys(c *DedupeConfig) error {
	rule := ingress.KeyRule{Kind: "signature"}
	if len(s.verifiers) == 0 {
		rule.Kind = "body"
	}
	if c != nil {
		s.ttl = orDefault(c.TTL, defaultTTL)
		if c.Key != "" {
			rule = ingress.KeyRule{Kind: c.Key, Fields: c.Fields}
		}
	}
	s.keyKind = strings.Join(append([]string{rule.Kind}, rule.Fields...), " ")
	if rule.Kind == "off" {
		return nil
	}
	var err error
	s.keys, err = ingress.NewKeys(rule)
	return err
}

// start says in one line what this source does, and what is risky about it. Series are made here rather than in
// newSource, because a configuration that is rejected would leave them behind.
func (s *source) start(log *zap.Logger, store string) {
	s.accepted = requestsTotal.WithLabelValues(s.cfg.Source, "accepted", "")
	s.duplicate = requestsTotal.WithLabelValues(s.cfg.Source, "duplicate", "")
	endpoints := fmt.Sprintf("%d endpoints", len(s.cfg.Endpoints))
	if len(s.cfg.Endpoints) == 1 {
		endpoints = "1 endpoint"
	}
	dedupe := s.keyKind
	if s.keys != nil {
		dedupe += " " + shortDuration(s.ttl)
	}
	log.Info(fmt.Sprintf("source %s: verify %s, dedupe %s, %s, store %s", s.cfg.Source, s.proof, dedupe, endpoints, store))
	if len(s.verifiers) == 0 {
		log.Warn("this source accepts webhooks from anybody (verify none)", zap.String("source", s.cfg.Source))
	}
	if s.hasLiteralSecret() {
		log.Warn("a secret is written out in the configuration, where Caddy stores and shows it; use {env.NAME} or {file./path} instead",
			zap.String("source", s.cfg.Source))
	}
	if len(s.cfg.Endpoints) == 0 {
		log.Warn("this source has no endpoint: its webhooks are stored and never delivered", zap.String("source", s.cfg.Source))
	}
}

func (s *source) hasLiteralSecret() bool {
	for _, v := range s.cfg.Verify {
		for _, secret := range v.Secrets {
			if !strings.Contains(secret, "{") {
				return true
			}
		}
	}
	return false
}

// shortDuration leaves out the zeroes: 168h instead of 168h0m0s.
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// missingHeader reports the verdict on a request that lacks what every accepted provider always sends, so that it can be
// refused before its body is read.
func (s *source) missingHeader(h http.Header) bool {
	for _, v := range s.verifiers {
		if !slices.ContainsFunc(v.Requires(), func(name string) bool { return len(h[name]) == 0 }) {
			return false
		}
	}
	return len(s.verifiers) > 0
}

// verify tries the ways of proof in order. The reason of a refusal is that of the one that came furthest: one whose
// header is there says more than one whose header is missing.
func (s *source) verify(ctx context.Context, r *verify.Request, now time.Time) (verify.Verdict, *verify.Verifier) {
	if len(s.verifiers) == 0 {
		return verify.Verdict{OK: true}, nil
	}
	worst := verify.Verdict{Reason: verify.ReasonMissing}
	for _, v := range s.verifiers {
		verdict := v.Verify(ctx, r, now)
		if verdict.OK {
			return verdict, v
		}
		if worst.Reason == verify.ReasonMissing {
			worst = verdict
		}
	}
	return worst, nil
}

// accept stores a verified request.
func (s *source) accept(ctx context.Context, to store.Store, payload *event.Payload, verdict verify.Verdict, by *verify.Verifier, tenant string, h http.Header) (store.Accepted, error) {
	a := store.Accept{
		Event: event.Event{ID: newID(), Source: s.cfg.Source, Tenant: tenant, Verified: by != nil, Payload: payload.Encode()},
		Jobs:  make([]store.NewJob, len(s.jobs)),
	}
	if by != nil {
		r := &verify.Request{Method: payload.Method, URL: payload.Scheme + "://" + payload.Host + payload.URI, Header: h, Body: payload.Body}
		a.Event.Type, a.Event.ProviderID = by.EventFacts(r)
	}
	if s.keys != nil {
		key, _ := s.keys.Of(verdict.Signature, h, payload.Body)
		a.Keys = []store.Key{{Value: key, TTL: s.ttl}}
	}
	for i, j := range s.jobs {
		a.Jobs[i] = store.NewJob{ID: newID(), Queue: j.queue, Endpoint: j.endpoint, Observed: j.observed, MaxPending: j.maxPending}
	}
	return to.Accept(ctx, a)
}

// sampled drops log lines of one message beyond ten in ten seconds: a flood of forgeries must not become a flood of logs.
// The metrics count them all. A sampler takes half a megabyte, so a configuration has one.
func sampled(log *zap.Logger) *zap.Logger {
	return log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(c, 10*time.Second, 10, 0)
	}))
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}
