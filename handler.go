package anvil

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-anvil/anvil/internal/event"
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
// `{http.anvil.outcome}` | `accepted`, `duplicate` or `refused`
// `{http.anvil.reason}` | Why the request was refused
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

// refusal is an answer to a request that is not taken. Code goes to the sender, reason to the operator.
type refusal struct {
	status int
	code   string
	reason string
	retry  time.Duration
	// close ends the connection, because a rest of the body may still be in it.
	close bool
	err   error
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
	accepted, no := h.serve(w, r, began)
	repl, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if no != nil {
		s.refuse(w, r, repl, no)
		return nil
	}
	outcome, counter := "accepted", s.accepted
	if accepted.Duplicate {
		outcome, counter = "duplicate", s.duplicate
	}
	counter.Inc()
	acceptSeconds.Observe(time.Since(began).Seconds())
	first := accepted.JobIDs[0].String()
	if repl != nil {
		setOutcome(repl, outcome, "", first)
	}
	return s.answer(w, first, &accepted)
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request, began time.Time) (store.Accepted, *refusal) {
	var none store.Accepted
	s := h.source
	if r.Method != http.MethodPost {
		return none, &refusal{status: http.StatusMethodNotAllowed, code: "method_not_allowed"}
	}
	if !h.app.waitStarted(r.Context()) {
		return none, &refusal{status: http.StatusServiceUnavailable, code: "not_ready", retry: busyRetry}
	}
	clientIP, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	if s.byIP != nil {
		if ok, retry := s.byIP.Allow(ingress.ByIP(clientIP), began); !ok {
			return none, &refusal{status: http.StatusTooManyRequests, code: "rate_limited", reason: "rate_limit_ip", retry: retry}
		}
	}
	if !s.inFlight.Enter() {
		return none, &refusal{status: http.StatusTooManyRequests, code: "too_busy", reason: "max_in_flight", retry: time.Second}
	}
	defer s.inFlight.Leave()
	if s.missingHeader(r.Header) {
		return none, &refusal{status: http.StatusUnauthorized, code: "invalid_signature", reason: string(verify.ReasonMissing)}
	}
	body, reserved, no := s.readBody(w, r)
	defer s.inFlight.Release(reserved)
	if no != nil {
		return none, no
	}
	verdict, by := s.verify(&verify.Request{Header: r.Header, Body: body}, began)
	if !verdict.OK {
		return none, &refusal{status: http.StatusUnauthorized, code: "invalid_signature", reason: string(verdict.Reason)}
	}
	// Only what is verified uses up the source's budget, so that a forger cannot lock the provider out.
	if s.all != nil {
		if ok, retry := s.all.Allow(ingress.RateKey{}, began); !ok {
			return none, &refusal{status: http.StatusTooManyRequests, code: "rate_limited", reason: "rate_limit_source", retry: retry}
		}
	}
	return s.store(h.app, r, body, clientIP, verdict, by)
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

// store commits what was verified, whether or not the sender still waits: it may have hung up after sending.
func (s *source) store(app *App, r *http.Request, body []byte, clientIP string, verdict verify.Verdict, by *verify.Verifier) (store.Accepted, *refusal) {
	to := app.openStore()
	if to == nil {
		return store.Accepted{}, &refusal{status: http.StatusServiceUnavailable, code: "not_ready", retry: busyRetry}
	}
	tenant, err := s.tenantOf(r)
	if err != nil {
		return store.Accepted{}, &refusal{status: http.StatusServiceUnavailable, code: "not_ready", reason: "tenant_unknown", retry: busyRetry, err: err}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), acceptTimeout)
	defer cancel()
	accepted, err := s.accept(ctx, to, s.payload(r, body, clientIP), verdict, by, tenant, r.Header)
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

// tenantOf refuses what it cannot resolve: with an empty text in its place all tenants would be one, and the events of one
// duplicates of another's.
func (s *source) tenantOf(r *http.Request) (string, error) {
	if s.tenant == "" {
		return "", nil
	}
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return "", errors.New("resolving tenant: the request has no placeholders")
	}
	tenant, err := repl.ReplaceOrErr(s.tenant, false, true)
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

// payload is the request as the sender made it: rewrites have changed r.URL, not the original.
func (s *source) payload(r *http.Request, body []byte, clientIP string) *event.Payload {
	p := &event.Payload{
		Method: r.Method, Scheme: "http", Host: r.Host, URI: r.RequestURI, ClientIP: clientIP,
		Headers: event.HeaderLines(r.Header, s.cut...), Body: body,
	}
	if orig, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		p.URI = orig.RequestURI
	}
	if r.TLS != nil {
		p.Scheme = "https"
	}
	if trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool); trusted {
		if v := r.Header.Get("X-Forwarded-Proto"); v == "http" || v == "https" {
			p.Scheme = v
		}
		if v := r.Header.Get("X-Forwarded-Host"); v != "" {
			p.Host = v
		}
	}
	return p
}

func (s *source) answer(w http.ResponseWriter, first string, a *store.Accepted) error {
	w.Header()["Anvil-Job-Id"] = []string{first}
	if s.respond.Body != "" || s.respond.Status == http.StatusNoContent || s.respond.Status == http.StatusResetContent {
		w.WriteHeader(s.respond.Status)
		_, err := io.WriteString(w, s.respond.Body)
		return err
	}
	b := make([]byte, 0, 160)
	b = append(b, `{"jobId":"`...)
	b = append(b, first...)
	if len(a.JobIDs) > 1 {
		b = append(b, `","jobIds":["`...)
		for i, id := range a.JobIDs {
			if i > 0 {
				b = append(b, `","`...)
			}
			b = append(b, id.String()...)
		}
		b = append(b, `"]`...)
	} else {
		b = append(b, '"')
	}
	b = append(b, `,"replayed":`...)
	b = strconv.AppendBool(b, a.Duplicate)
	b = append(b, "}\n"...)
	w.Header()["Content-Type"] = jsonType
	w.WriteHeader(s.respond.Status)
	_, err := w.Write(b)
	return err
}

var jsonType = []string{"application/json"}

// refuse answers, counts and logs a refusal. It writes the answer itself, so that no error page of the site can change
// what the sender's retries depend on.
func (s *source) refuse(w http.ResponseWriter, r *http.Request, repl *caddy.Replacer, no *refusal) {
	reason := or(no.reason, no.code)
	requestsTotal.WithLabelValues(s.cfg.Source, "refused", reason).Inc()
	if repl != nil {
		setOutcome(repl, "refused", reason, "")
	}
	clientIP, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	if c := s.log.Check(zap.WarnLevel, "refused webhook: "+no.code); c != nil {
		c.Write(zap.String("reason", reason), zap.String("verify", s.proof), zap.Int("status", no.status), zap.String("client_ip", clientIP), zap.Error(no.err))
	}
	head := w.Header()
	if no.status == http.StatusMethodNotAllowed {
		head.Set("Allow", http.MethodPost)
	}
	if no.retry > 0 {
		seconds := (no.retry + time.Second - 1) / time.Second
		head.Set("Retry-After", strconv.Itoa(int(seconds)))
	}
	if no.close {
		head.Set("Connection", "close")
	}
	head["Content-Type"] = jsonType
	w.WriteHeader(no.status)
	_, _ = io.WriteString(w, `{"error":"`+no.code+`"}`+"\n") // a sender that has gone is no news
}

// setOutcome sets all placeholders, because an unset one shows up as its own name.
func setOutcome(repl *caddy.Replacer, outcome, reason, job string) {
	repl.Set("http.anvil.outcome", outcome)
	repl.Set("http.anvil.reason", reason)
	repl.Set("http.anvil.job_id", job)
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
