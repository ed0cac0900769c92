package anvil

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-anvil/anvil/internal/ingress"
	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/verify"
)

const (
	// startWait bounds how long a request waits for a configuration that is just starting.
	startWait = 10 * time.Second
	// acceptTimeout bounds how long a request waits for the store.
	acceptTimeout = 10 * time.Second
	// tenantMax is the longest tenant in bytes.
	tenantMax = 256
	// busyRetry is the Retry-After of a refusal that has no better figure.
	busyRetry = 5 * time.Second
)

// Handler receives the webhooks of one source: it verifies each over the raw bytes, drops duplicates, stores the rest
// durably and answers. It never calls the next handler.
//
// For access logs it sets these placeholders:
//
// Placeholder | Description
// ------------|-------------
// `{http.anvil.job_id}` | The id of the first job, of the original one for a duplicate
// `{http.anvil.outcome}` | `accepted`, `duplicate`, `handshake` or `refused`
// `{http.anvil.reason}` | Why the request was refused, or would have been but for `report_only`
type Handler struct {
	SourceConfig

	app    *App
	source *source
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.anvil", New: func() caddy.Module { return new(Handler) }}
}

// Provision registers the source with the app.
func (h *Handler) Provision(ctx caddy.Context) error {
	if err := h.validate(); err != nil {
		return err
	}
	app, err := appOf(ctx)
	if err != nil {
		return err
	}
	h.app = app
	place := "another site"
	if srv, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok {
		place = "the site that listens on " + strings.Join(srv.Listen, ", ")
	}
	h.source, err = app.register(&h.SourceConfig, place)
	return err
}

// ServeHTTP implements caddyhttp.MiddlewareHandler. Refusals come in the order of their cost.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	began := time.Now()
	s := h.source
	if r.ContentLength != 0 {
		// Also for a refusal that needs no body: the server reads what is left of it before it answers. Where a connection has
		// no deadlines, Caddy's own timeouts still end a stalled body.
		_ = http.NewResponseController(w).SetReadDeadline(began.Add(s.readTimeout))
	}
	repl, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	in := &incoming{w: w, r: r, began: began}
	in.clientIP, _ = caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	accepted, no := h.serve(r.Context(), in)
	switch {
	case no != nil:
		s.refuse(r.Context(), in, repl, no)
		return nil
	case in.test != nil:
		return s.answerTest(in, repl)
	}
	outcome, counter := "accepted", s.accepted
	if accepted.Duplicate {
		outcome, counter = "duplicate", s.duplicate
	}
	reason := string(in.trust.verdict.Reason)
	if reason == "" {
		counter.Inc()
	} else {
		requestsTotal.WithLabelValues(s.cfg.Source, outcome, reason).Inc()
	}
	acceptSeconds.Observe(time.Since(began).Seconds())
	first := accepted.JobIDs[0].String()
	if repl != nil {
		setOutcome(repl, outcome, reason, first)
	}
	return s.answer(w, first, &accepted, in.trust.by)
}

// incoming is a request on its way through the handler.
type incoming struct {
	w        http.ResponseWriter
	r        *http.Request
	began    time.Time
	clientIP string
	read     bool // the body, or what came of it
	// sent is what the sender made, for proofs.
	sent  verify.Request
	trust trust
	// test is the answer to a handshake, nil for deliveries.
	test *verify.Answer
}

func (h *Handler) serve(ctx context.Context, in *incoming) (store.Accepted, *refusal) {
	var none store.Accepted
	s, r := h.source, in.r
	delivers := slices.Contains(s.delivers, r.Method)
	if !delivers && !slices.Contains(s.tests, r.Method) {
		return none, &refusal{status: http.StatusMethodNotAllowed, code: "method_not_allowed"}
	}
	if !h.app.waitStarted(ctx) {
		return none, &refusal{status: http.StatusServiceUnavailable, code: "not_ready", retry: busyRetry}
	}
	if s.byIP != nil {
		if ok, retry := s.byIP.Allow(ingress.ByIP(in.clientIP), in.began); !ok {
			return none, &refusal{status: http.StatusTooManyRequests, code: "rate_limited", reason: "rate_limit_ip", retry: retry}
		}
	}
	if !s.inFlight.Enter() {
		return none, &refusal{status: http.StatusTooManyRequests, code: "too_busy", reason: "max_in_flight", retry: time.Second}
	}
	defer s.inFlight.Leave()
	origin := originOf(r)
	in.sent = verify.Request{Method: r.Method, URL: s.urlOf(&origin), Header: r.Header}
	if !delivers {
		if s.tested(ctx, in) {
			return none, nil
		}
		return none, &refusal{status: http.StatusMethodNotAllowed, code: "method_not_allowed", reason: "no_handshake"}
	}
	if s.missingHeader(&in.sent) {
		in.trust = trust{by: s.proofs[0], verdict: verify.Verdict{Reason: verify.ReasonMissing}}
		return none, s.unprovedRefusal(ctx, in)
	}
	in.read = true
	body, reserved, no := s.readBody(in.w, r)
	defer s.inFlight.Release(reserved)
	if no != nil {
		return none, no
	}
	in.sent.Body = body
	if s.tested(ctx, in) {
		return none, nil
	}
	in.trust = s.prove(ctx, &in.sent, in.began)
	switch {
	case in.trust.verified && s.tested(ctx, in):
		return none, nil
	case in.trust.verdict.OK:
	case s.reportOnly:
		s.reportUnproved(ctx, in)
	default:
		return none, s.unprovedRefusal(ctx, in)
	}
	in.trust.countSecret()
	// Only what is proved uses up the source's budget, so that a forger cannot lock the provider out. The time is that of now:
	// a body may have taken longer than a window.
	if s.all != nil && in.trust.verdict.OK {
		if ok, retry := s.all.Allow(ingress.RateKey{}, time.Now()); !ok {
			return none, &refusal{status: http.StatusTooManyRequests, code: "rate_limited", reason: "rate_limit_source", retry: retry}
		}
	}
	return s.store(ctx, h.app, in, &origin)
}

// readBody reads the body under the limits. The caller releases what was reserved.
func (s *source) readBody(w http.ResponseWriter, r *http.Request) (body []byte, reserved int64, no *refusal) {
	if r.ContentLength > s.maxBody {
		return nil, 0, tooLarge(r, "max_body", s.maxBody)
	}
	body, err := ingress.ReadBody(r.Context(), r.Body, r.ContentLength, s.maxBody, func(n int64) bool {
		if !s.inFlight.Reserve(n) {
			return false
		}
		reserved += n
		return true
	})
	if err == nil {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		}
		return body, reserved, nil
	}
	// An outer request_body handler reports its own limit in this way.
	var outer *http.MaxBytesError
	switch {
	case errors.As(err, &outer):
		no = tooLarge(r, "request_body", outer.Limit)
	case errors.Is(err, ingress.ErrBodyTooLarge):
		no = tooLarge(r, "max_body", s.maxBody)
	case errors.Is(err, ingress.ErrBudget):
		no = &refusal{status: http.StatusTooManyRequests, code: "too_busy", reason: "max_in_flight_bytes", retry: time.Second}
	case ingress.IsTimeout(err):
		no = &refusal{status: http.StatusRequestTimeout, code: "body_timeout"}
	case errors.Is(err, io.ErrUnexpectedEOF), r.Context().Err() != nil:
		no = &refusal{status: http.StatusBadRequest, code: "body_incomplete"} // nobody is there to read it
	default:
		no = &refusal{status: http.StatusBadRequest, code: "body_incomplete", err: err}
	}
	no.close = true
	return nil, reserved, no
}

func tooLarge(r *http.Request, word string, limit int64) *refusal {
	size := "more"
	if r.ContentLength >= 0 {
		size = strconv.FormatInt(r.ContentLength, 10)
	}
	return &refusal{
		status: http.StatusRequestEntityTooLarge, code: "body_too_large", close: true,
		err: errors.New("the body has " + size + " bytes, " + word + " allows " + strconv.FormatInt(limit, 10)),
	}
}

// store commits what was let in, whether or not the sender still waits: it may have hung up after sending.
func (s *source) store(ctx context.Context, app *App, in *incoming, o *origin) (store.Accepted, *refusal) {
	to := app.openStore()
	if to == nil {
		return store.Accepted{}, &refusal{status: http.StatusServiceUnavailable, code: "not_ready", retry: busyRetry}
	}
	tenant, err := s.tenantOf(in.r)
	if err != nil {
		return store.Accepted{}, &refusal{status: http.StatusServiceUnavailable, code: "not_ready", reason: "tenant_unknown", retry: busyRetry, err: err}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), acceptTimeout)
	defer cancel()
	accepted, err := s.accept(ctx, to, s.payload(in, o), &in.sent, &in.trust, tenant, in.began)
	if err == nil {
		return accepted, nil
	}
	no := &refusal{status: http.StatusServiceUnavailable, code: "store_unavailable", retry: busyRetry, err: err}
	switch {
	case errors.Is(err, store.ErrBacklog):
		no.code = "backlog_full"
	case errors.Is(err, store.ErrFull):
		no.code = "store_full"
	}
	return accepted, no
}

// hostNames are the placeholders with a name of this server as the sender spells it.
var hostNames = []string{"http.request.host", "http.request.hostport", "http.request.tls.server_name"}

// tenantOf refuses what it cannot resolve: with an empty text in its place all tenants would be one, and the events of one
// duplicates of another's.
func (s *source) tenantOf(r *http.Request) (string, error) {
	if s.cfg.Tenant == "" {
		return "", nil
	}
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return "", errors.New("resolving tenant: the request has no placeholders")
	}
	tenant, err := repl.ReplaceFunc(s.cfg.Tenant, func(name string, value any) (any, error) {
		if _, known := repl.Get(name); !known {
			return nil, fmt.Errorf("unrecognized placeholder {%s}", name)
		}
		// A site answers to its name in any case. Were each spelling a tenant, a captured webhook would be new in it.
		if host, ok := value.(string); ok && slices.Contains(hostNames, name) {
			if bare := strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"); !strings.Contains(bare, ":") {
				host = bare // only an IP has brackets, and Caddy's matcher looks past them
			}
			return strings.ToLower(host), nil
		}
		return value, nil
	})
	if err != nil {
		return "", fmt.Errorf("resolving tenant: %w", err)
	}
	// A placeholder may be a header of the sender's. It goes into every list, so it is bounded; cutting it would make two
	// tenants one.
	if len(tenant) > tenantMax {
		return "", fmt.Errorf("resolving tenant: it has %d bytes, at most %d can be stored", len(tenant), tenantMax)
	}
	return tenant, nil
}

// waitStarted waits until the app has started, a bounded time.
func (a *App) waitStarted(ctx context.Context) bool {
	select {
	case <-a.started:
		return true
	default:
	}
	timer := time.NewTimer(startWait)
	defer timer.Stop()
	select {
	case <-a.started:
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	return false
}

var (
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
	_ caddy.Provisioner           = (*Handler)(nil)
)
