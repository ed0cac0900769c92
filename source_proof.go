package anvil

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/caddy-anvil/anvil/internal/verify"
)

// minSecret is the least length of a secret that the user makes up: 16 characters of any kind are beyond guessing.
const minSecret = 16

// proof is one verify of a source, ready for requests.
type proof struct {
	*verify.Verifier
	provider   *verify.Provider
	reportOnly bool
	keys       keyPlan
	// accepted and refused are what this provider is told.
	accepted, refused response
	secrets           int
	used              []prometheus.Counter // by secret, from start on
}

// newProof returns the proof and its secrets.
func (s *source) newProof(c *VerifyConfig, log *zap.Logger) (*proof, []string, error) {
	secrets, err := resolveSecrets(c)
	if err != nil {
		return nil, nil, err
	}
	options, err := resolveOptions(c)
	if err != nil {
		return nil, nil, err
	}
	v, err := verify.New(c.Provider, secrets, options, s.fetch)
	if err != nil {
		return nil, nil, err
	}
	p := &proof{Verifier: v, provider: v.Provider(), reportOnly: c.ReportOnly, secrets: len(secrets)}
	log = log.With(zap.String("source", s.cfg.Source), zap.String("provider", p.provider.ID))
	if err := p.checkSecrets(secrets, log); err != nil {
		return nil, nil, err
	}
	if slices.Contains(p.provider.Options, "verify_token") && options["verify_token"] == "" {
		log.Warn("verify_token is not set, so that anybody passes the check at registration; set it to the token that is given to the provider")
	}
	for _, name := range v.Requires() {
		if strings.ContainsAny(name, "_.") {
			log.Warn("Caddy drops request headers with an underscore or a dot in their name unless the server allows them "+
				"(servers > expected_underscore_headers, expected_dot_headers)", zap.String("header", name))
		}
	}
	if p.keys, err = newKeyPlan(s.cfg.Dedupe, p); err != nil {
		return nil, nil, err
	}
	if s.cfg.Dedupe != nil && s.cfg.Dedupe.Key == "event_id" && options["event_id"] == "" && !p.provider.IDStable {
		log.Warn("dedupe event_id: this provider's id is another one at each delivery, or may be, so that a repeat is taken for a new webhook")
	}
	p.accepted, p.refused = s.replies(p.provider)
	return p, secrets, nil
}

// checkSecrets refuses what can be guessed where the user made it up, and warns where a provider did.
func (p *proof) checkSecrets(secrets []string, log *zap.Logger) error {
	for i, secret := range secrets {
		switch short := utf8.RuneCountInString(secret) < minSecret; {
		case short && p.provider.Generic:
			return fmt.Errorf("verify %s: secret %d has fewer than %d characters, which can be guessed; make one with: openssl rand -hex 32",
				p.provider.ID, i+1, minSecret)
		case short:
			log.Warn("a secret has fewer than 16 characters and may be guessed; choose a longer one at the provider", zap.Int("secret", i+1))
		}
		if strings.TrimSpace(secret) != secret {
			log.Warn("a secret begins or ends with white space, which is taken as part of it", zap.Int("secret", i+1))
		}
	}
	return nil
}

// unready reports whether deliveries cannot be proved yet, because their secret comes with the registration.
func (p *proof) unready() bool { return p.provider.Proves && p.secrets == 0 && !p.provider.Keyless }

// String describes the proof for logs.
func (p *proof) String() string {
	if p.reportOnly {
		return p.Verifier.String() + " report_only"
	}
	return p.Verifier.String()
}

// trust is what a source knows of a request after looking at its proof.
type trust struct {
	verified bool
	// by is the proof that accepted the request; of a request that is not proved, the one that came furthest; nil for
	// verify none.
	by      *proof
	verdict verify.Verdict
}

// missingHeader reports whether a request lacks what every accepted provider always sends, so that it can be refused
// before its body is read.
func (s *source) missingHeader(r *verify.Request) bool {
	if len(s.proofs) == 0 || s.reportOnly {
		return false
	}
	for _, p := range s.proofs {
		if !p.Lacks(r) {
			return false
		}
	}
	return true
}

// prove tries the ways of proof in order. Of those that fail the one that came furthest gives the reason: a wrong
// signature says more than a missing one, and what is our own fault must not look like the sender's.
func (s *source) prove(ctx context.Context, r *verify.Request, now time.Time) trust {
	var best trust
	for _, p := range s.proofs {
		verdict := p.Verify(ctx, r, now)
		if verdict.OK {
			return trust{verified: p.provider.Proves, by: p, verdict: verdict}
		}
		if best.by == nil || came(verdict.Reason) > came(best.verdict.Reason) {
			best = trust{by: p, verdict: verdict}
		}
	}
	if len(s.proofs) == 0 {
		best.verdict.OK = true
	}
	return best
}

// came ranks reasons by how far a check came.
func came(r verify.Reason) int {
	switch r {
	case verify.ReasonMissing:
		return 0
	case verify.ReasonKeyUnavailable, verify.ReasonNoSecret:
		return 2
	}
	return 1
}

// handshake answers a request by which a provider tests the endpoint. by is nil before the request is proved; then those
// that nothing signs are answered. A provider that refuses leaves the word to those behind it.
func (s *source) handshake(ctx context.Context, r *verify.Request, by *proof, verdict verify.Verdict) (answer verify.Answer, of *proof) {
	for _, p := range s.proofs {
		if by != nil && p != by || !p.Handshakes(r.Method) {
			continue
		}
		if a, ok := p.Handshake(ctx, r, verdict); ok && (of == nil || a.Status < http.StatusBadRequest) {
			answer, of = a, p
			if a.Status < http.StatusBadRequest {
				break
			}
		}
	}
	return answer, of
}

// secretSeries names the series of each secret. Where a provider stands in several verify, its secrets are counted on.
func (s *source) secretSeries() []secretSeries {
	var all []secretSeries
	n := map[string]int{}
	for _, p := range s.proofs {
		for range p.secrets {
			n[p.provider.ID]++
			all = append(all, secretSeries{s.cfg.Source, p.provider.ID, strconv.Itoa(n[p.provider.ID])})
		}
	}
	return all
}

// countSecrets makes the series of all secrets, so that one which is not used any more shows as such.
func (s *source) countSecrets() {
	series := s.secretSeries()
	for _, p := range s.proofs {
		for range p.secrets {
			p.used = append(p.used, secretUsedTotal.WithLabelValues(series[0].source, series[0].provider, series[0].secret))
			series = series[1:]
		}
	}
}

func (t *trust) countSecret() {
	if t.verified && t.verdict.Secret < len(t.by.used) {
		t.by.used[t.verdict.Secret].Inc()
	}
}
