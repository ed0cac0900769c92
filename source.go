package anvil

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/ingress"
	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/verify"
)

const (
	defaultMaxInFlight = 1000
	defaultReadTimeout = 10 * time.Second
)

// neverStored are request headers whose values are credentials for this server or its sites, not for the endpoint.
var neverStored = []string{"Authorization", "Proxy-Authorization", "Cookie"}

// source is a SourceConfig ready for requests. All sites that name it share it, and so its limits.
type source struct {
	cfg   SourceConfig
	place string
	log   *zap.Logger

	proofs     []*proof // empty: verify none
	reportOnly bool     // some proof lets in what it refuses
	unproved   keyPlan  // for what is let in without proof
	secrets    func() []string
	former     func() []string // secrets of the configuration before; from start on
	fetch      verify.Fetcher
	proof      string // how it verifies, for logs
	dedupe     string // by what it recognises repeats, for logs
	publicURL  string // without a slash at its end; empty: as the request says
	jobs       []jobPlan

	// delivers and tests are the methods of deliveries and of handshakes, allow is both.
	delivers, tests []string
	allow           string
	tokens          tokenLog
	explaining      sync.Mutex // held while hints are looked for

	maxBody     int64
	readTimeout time.Duration
	inFlight    *ingress.InFlight
	byIP, all   *ingress.RateLimiter
	reply       response // for verify none
	cutHeaders  []string
	cutQuery    []string

	accepted, duplicate, shaken prometheus.Counter // from start on
}

// jobPlan is a job that each event of the source gets.
type jobPlan struct {
	queue, endpoint string
	observed        bool
	maxPending      int
}

func newSource(cfg *SourceConfig, maxPending int, log *zap.Logger) (*source, error) {
	s := &source{
		cfg: *cfg, log: sampled(log).With(zap.String("source", cfg.Source)),
		maxBody: cfg.maxBody(), readTimeout: orDefault(cfg.ReadTimeout, defaultReadTimeout),
		inFlight:   ingress.NewInFlight(int64(cmp.Or(cfg.MaxInFlight, defaultMaxInFlight)), cmp.Or(cfg.MaxInFlightBytes, defaultMaxInFlightBytes)),
		cutHeaders: slices.Clone(neverStored),
		fetch:      verify.NewHTTPFetcher(nil, time.Now),
		delivers:   []string{http.MethodPost},
		publicURL:  strings.TrimRight(cfg.PublicURL, "/"),
	}
	s.reply, _ = s.replies(nil)
	if err := s.addProofs(log); err != nil {
		return nil, err
	}
	if _, perhaps := unknownPlaceholders(cfg.Tenant); perhaps != "" && !strings.HasPrefix(perhaps, "http.request.tls.") {
		log.Warn("the tenant's placeholder is not one of Caddy's own; unless another module sets it, each webhook gets 503",
			zap.String("source", cfg.Source), zap.String("placeholder", perhaps))
	}
	for _, r := range cfg.RateLimit {
		limiter := ingress.NewRateLimiter(r.Events, time.Duration(r.Window))
		if r.Scope == "ip" {
			s.byIP = limiter
		} else {
			s.all = limiter
		}
	}
	for i := range cfg.Endpoints {
		s.jobs = append(s.jobs, jobPlan{queue: cfg.queue(), endpoint: cfg.Source + "/" + cfg.Endpoints[i].name(), maxPending: maxPending})
	}
	if len(s.jobs) == 0 {
		s.jobs = []jobPlan{{queue: cfg.queue(), endpoint: cfg.Source + "/", observed: true}}
	}
	return s, nil
}

// addProofs makes the proofs, and joins what they say about all requests.
func (s *source) addProofs(log *zap.Logger) error {
	var secrets, says, keys []string
	for i := range s.cfg.Verify {
		c := &s.cfg.Verify[i]
		if c.Provider == providerNone {
			continue
		}
		p, found, err := s.newProof(c, log)
		if err != nil {
			return err
		}
		s.proofs = append(s.proofs, p)
		s.reportOnly = s.reportOnly || p.reportOnly
		carries := p.Carries()
		if carries.Body {
			log.Warn("this provider sends the secret in the body, so that it is stored and delivered with each webhook",
				zap.String("source", s.cfg.Source), zap.String("provider", p.provider.ID))
		}
		s.cutHeaders = append(s.cutHeaders, carries.Headers...)
		s.cutQuery = append(s.cutQuery, carries.Query...)
		s.delivers = append(s.delivers, p.provider.Methods...)
		s.tests = append(s.tests, p.provider.HandshakeMethods...)
		secrets = append(secrets, found...)
		says = append(says, p.String())
		if text := p.keys.String(); !slices.Contains(keys, text) {
			keys = append(keys, text)
		}
	}
	var err error
	if s.unproved, err = newKeyPlan(s.cfg.Dedupe, nil); err != nil {
		return err
	}
	s.proof = cmp.Or(strings.Join(says, " or "), providerNone)
	s.dedupe = cmp.Or(strings.Join(keys, " or "), s.unproved.String())
	s.secrets = func() []string { return secrets }
	all := slices.Concat(s.delivers, s.tests)
	slices.Sort(all)
	s.allow = strings.Join(slices.Compact(all), ", ")
	return nil
}

// start says in one line what this source does, and what is risky about it. Series are made here rather than in
// newSource, because a configuration that is rejected would leave them behind.
func (s *source) start(log *zap.Logger, store string) {
	s.accepted = requestsTotal.WithLabelValues(s.cfg.Source, "accepted", "")
	s.duplicate = requestsTotal.WithLabelValues(s.cfg.Source, "duplicate", "")
	if len(s.tests) > 0 {
		s.shaken = requestsTotal.WithLabelValues(s.cfg.Source, "handshake", "")
	}
	s.countSecrets()
	s.former = secretsBefore(s.cfg.Source, s.secrets())
	endpoints := fmt.Sprintf("%d endpoints", len(s.cfg.Endpoints))
	if len(s.cfg.Endpoints) == 1 {
		endpoints = "1 endpoint"
	}
	log.Info(fmt.Sprintf("source %s: verify %s, dedupe %s, %s, store %s", s.cfg.Source, s.proof, s.dedupe, endpoints, store))
	log = log.With(zap.String("source", s.cfg.Source))
	switch {
	case len(s.proofs) == 0:
		log.Warn("this source accepts webhooks from anybody (verify none)")
	case !s.proofs[0].provider.Proves:
		log.Warn("this source accepts webhooks from anybody, because this provider does not sign", zap.String("provider", s.proofs[0].provider.ID))
	}
	for _, p := range s.proofs {
		if p.reportOnly {
			log.Warn("this source lets in webhooks that are not proved and only reports them (report_only)", zap.String("provider", p.provider.ID))
		}
		if p.unready() {
			log.Warn("no secret is configured, so only the provider's registration is answered and every delivery gets 503", zap.String("provider", p.provider.ID))
		}
	}
	if slices.ContainsFunc(s.cfg.Verify, func(c VerifyConfig) bool { return c.hasLiteral() }) {
		log.Warn("a secret is written out in the configuration, where Caddy stores and shows it; use {env.NAME} or {file./path} instead")
	}
	if len(s.cfg.Endpoints) == 0 {
		log.Warn("this source has no endpoint: its webhooks are stored and never delivered")
	}
}

// accept stores a request that is let in.
func (s *source) accept(ctx context.Context, to store.Store, payload *event.Payload, r *verify.Request, t *trust, tenant string, now time.Time) (store.Accepted, error) {
	a := store.Accept{
		Event: event.Event{ID: newID(), Source: s.cfg.Source, Tenant: tenant, Verified: t.verified, Payload: payload.Encode()},
		Jobs:  make([]store.NewJob, len(s.jobs)),
	}
	plan := &s.unproved
	// What is not proved says nothing that is believed.
	if t.by != nil && t.verdict.OK {
		a.Event.Type, a.Event.ProviderID = t.by.EventFacts(r)
		plan = &t.by.keys
	}
	a.Keys = plan.of(t, a.Event.ProviderID, r, now)
	for i, j := range s.jobs {
		a.Jobs[i] = store.NewJob{ID: newID(), Queue: j.queue, Endpoint: j.endpoint, Observed: j.observed, MaxPending: j.maxPending}
	}
	return to.Accept(ctx, a)
}
