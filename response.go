package anvil

import (
	"cmp"
	"context"
	"crypto/sha256"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/verify"
)

// response is the answer to a delivery. With own the body is ours: JSON that says what became of it.
type response struct {
	verify.Answer
	own bool
}

// replies joins what is configured with what the provider needs, which is nil for verify none.
func (s *source) replies(p *verify.Provider) (accepted, refused response) {
	accepted = response{verify.Answer{Status: http.StatusAccepted}, true}
	refused = response{verify.Answer{Status: http.StatusUnauthorized}, true}
	if p != nil && p.Accepted.Status != 0 {
		accepted = response{p.Accepted, false}
	}
	if p != nil && p.Refused.Status != 0 {
		refused = response{p.Refused, false}
	}
	if r := s.cfg.Respond; r != nil {
		status := cmp.Or(r.Status, http.StatusAccepted)
		accepted = response{verify.Answer{Status: status}, r.Body == nil && status != http.StatusNoContent && status != http.StatusResetContent}
		if r.Body != nil {
			accepted.Body = *r.Body
		}
	}
	return accepted, refused
}

// writeAnswer sends an answer exactly as it is.
func writeAnswer(w http.ResponseWriter, a *verify.Answer) error {
	for name, value := range a.Headers {
		w.Header().Set(name, value)
	}
	if a.ContentType != "" {
		w.Header()["Content-Type"] = []string{a.ContentType}
	}
	w.WriteHeader(a.Status)
	if a.Body == "" {
		return nil
	}
	_, err := io.WriteString(w, a.Body)
	return err
}

// answer tells the sender that its webhook is stored, or was before.
func (s *source) answer(w http.ResponseWriter, first string, a *store.Accepted, by *proof) error {
	w.Header()["Anvil-Job-Id"] = []string{first}
	if a.Duplicate { // here too, as many a body is the provider's
		w.Header()["Anvil-Replayed"] = []string{"true"}
	}
	to := &s.reply
	if by != nil {
		to = &by.accepted
	}
	if !to.own {
		return writeAnswer(w, &to.Answer)
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
	w.WriteHeader(to.Status)
	_, err := w.Write(b)
	return err
}

var jsonType = []string{"application/json"}

// refusal is an answer to a request that is not taken. Code goes to the sender, reason to the operator.
type refusal struct {
	status int
	code   string
	reason string
	retry  time.Duration
	// close ends an HTTP/1 connection, because a rest of the body may still be in it.
	close bool
	err   error
	// to is the provider's own form of the answer; nil for ours.
	to *verify.Answer
	// logged says that the log has it already.
	logged bool
}

// refuse answers, counts and logs a refusal. It writes the answer itself, so that no error page of the site can change
// what the sender's retries depend on.
func (s *source) refuse(ctx context.Context, in *incoming, repl *caddy.Replacer, no *refusal) {
	reason := cmp.Or(no.reason, no.code)
	requestsTotal.WithLabelValues(s.cfg.Source, "refused", reason).Inc()
	if repl != nil {
		setOutcome(repl, "refused", reason, "")
	}
	if !no.logged {
		s.logRefusal(ctx, in, "refused webhook: "+no.code, reason, no.status, no.err)
	}
	head := in.w.Header()
	if no.status == http.StatusMethodNotAllowed {
		head.Set("Allow", s.allow)
	}
	if no.retry > 0 {
		seconds := (no.retry + time.Second - 1) / time.Second
		head.Set("Retry-After", strconv.Itoa(int(seconds)))
	}
	// The server reads what is left of a body before it answers, unless the connection ends. Of a sender that waits for leave
	// to send its body nothing would come.
	waiting := !in.read && in.r.Header.Get("Expect") != ""
	// A stream of a later version ends alone. There the header would end the connection for the other streams (HTTP/2) or
	// make the answer malformed (HTTP/3).
	if (no.close || waiting) && in.r.ProtoMajor == 1 {
		head.Set("Connection", "close")
	}
	if no.to != nil {
		_ = writeAnswer(in.w, no.to) // a sender that has gone is no news
		return
	}
	head["Content-Type"] = jsonType
	in.w.WriteHeader(no.status)
	_, _ = io.WriteString(in.w, `{"error":"`+no.code+`"}`+"\n") // as above
}

// explainTime bounds the search for hints about one request. Most are found in a few milliseconds.
const explainTime = 200 * time.Millisecond

// explain looks for hints about one request at a time: strangers decide how often it is asked, so it must not take more
// than one processor for any number of them.
func (s *source) explain(ctx context.Context, in *incoming) []string {
	if !s.explaining.TryLock() {
		return nil
	}
	defer s.explaining.Unlock()
	ctx, cancel := context.WithTimeout(ctx, explainTime)
	defer cancel()
	sent := in.sent
	if s.publicURL != "" {
		o := originOf(in.r)
		sent.Reached = o.url()
	}
	var hints []string
	for _, h := range in.trust.by.Explain(ctx, &sent, in.began, s.former()) {
		hints = append(hints, h.Text)
	}
	return hints
}

// logRefusal looks for hints only if the line will be written, because that costs dozens of verifications.
func (s *source) logRefusal(ctx context.Context, in *incoming, message, reason string, status int, err error) {
	c := s.log.Check(zap.WarnLevel, message)
	if c == nil {
		return
	}
	fields := []zapcore.Field{zap.String("reason", reason), zap.String("verify", s.proof)}
	if status != 0 {
		fields = append(fields, zap.Int("status", status))
	}
	fields = append(fields, zap.String("client_ip", in.clientIP), zap.Error(err))
	if by := in.trust.by; by != nil && in.trust.verdict.Reason != "" {
		hints := s.explain(ctx, in)
		if len(s.proofs) > 1 {
			fields = append(fields, zap.String("provider", by.provider.ID))
		}
		fields = append(fields, zap.Strings("hints", hints))
		if in.trust.verdict.Reason == verify.ReasonMissing {
			fields = append(fields, zap.Strings("expected", expected(by)), zap.Strings("resembles", resembles(in.r.Header)))
		}
	}
	c.Write(fields...)
}

// expected is where the signature should be: the headers without which no delivery is genuine, or else all that may have it.
func expected(by *proof) []string {
	if names := by.Requires(); len(names) > 0 {
		return names
	}
	return strings.Split(by.provider.SignatureIn, " | ")
}

// resembles names providers whose signature header the request has: without a body nothing more can be said about a
// request that was meant for another verify.
func resembles(h http.Header) []string {
	const most = 5
	var ids []string
	for _, p := range verify.Providers() {
		for place := range strings.SplitSeq(p.SignatureIn, " | ") {
			if !p.Generic && len(ids) < most && place != "Authorization" && len(h[http.CanonicalHeaderKey(place)]) > 0 {
				ids = append(ids, p.ID)
				break
			}
		}
	}
	return ids
}

// unprovedRefusal is logged at once, while the memory of the body still counts as taken. What is our own fault must not
// look like the sender's: many providers give up on a 401.
func (s *source) unprovedRefusal(ctx context.Context, in *incoming) *refusal {
	verdict := &in.trust.verdict
	no := &refusal{status: http.StatusUnauthorized, code: "invalid_signature", reason: string(verdict.Reason), logged: true}
	if to := &in.trust.by.refused; !to.own {
		no.status, no.to = to.Status, &to.Answer
	}
	if verdict.Reason == verify.ReasonKeyUnavailable || verdict.Reason == verify.ReasonNoSecret {
		no.status, no.code, no.retry, no.to = http.StatusServiceUnavailable, "not_ready", busyRetry, nil
	}
	s.logRefusal(ctx, in, "refused webhook: "+no.code, no.reason, no.status, nil)
	return no
}

// reportUnproved logs what report_only lets in.
func (s *source) reportUnproved(ctx context.Context, in *incoming) {
	s.logRefusal(ctx, in, "let in a webhook that is not proved (report_only)", string(in.trust.verdict.Reason), 0, nil)
}

// tested reports whether the request is a handshake, and leaves the answer in it.
func (s *source) tested(ctx context.Context, in *incoming) bool {
	if len(s.tests) == 0 {
		return false
	}
	answer, of := s.handshake(ctx, &in.sent, in.trust.by, in.trust.verdict)
	if of == nil {
		return false
	}
	in.test = &answer
	if in.trust.by != nil {
		// It is proved, so it is rare, and one may tell that a subscription has ended.
		eventType, _ := of.EventFacts(&in.sent)
		s.log.Info("answered a provider's message about the registration", zap.String("provider", of.provider.ID), zap.String("type", eventType))
	}
	// Once there is a secret, a token can only confuse, and anybody can send one.
	if answer.Token != "" && of.unready() && s.tokens.isNew(answer.Token) {
		s.log.Warn("a provider has handed over a secret; if you have just registered this address there, make it the secret of this source and reload; "+
			"if not, somebody else has sent it, so leave it alone",
			zap.String("provider", of.provider.ID), zap.String("token", answer.Token), zap.String("client_ip", in.clientIP))
	}
	return true
}

// answerTest answers a handshake.
func (s *source) answerTest(in *incoming, repl *caddy.Replacer) error {
	outcome, reason := "handshake", ""
	if in.test.Status >= http.StatusBadRequest {
		outcome, reason = "refused", "handshake"
		requestsTotal.WithLabelValues(s.cfg.Source, outcome, reason).Inc()
		if c := s.log.Check(zap.WarnLevel, "refused a handshake: its token or challenge is not right"); c != nil {
			c.Write(zap.Int("status", in.test.Status), zap.String("verify", s.proof), zap.String("client_ip", in.clientIP))
		}
	} else {
		s.shaken.Inc()
	}
	if repl != nil {
		setOutcome(repl, outcome, reason, "")
	}
	return writeAnswer(in.w, in.test)
}

// tokenLog remembers the last tokens that were logged, by their hashes, so that each is logged once also where others
// come between.
type tokenLog struct {
	mu   sync.Mutex
	last [16][sha256.Size]byte
	next int
}

func (l *tokenLog) isNew(token string) bool {
	sum := sha256.Sum256([]byte(token))
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Contains(l.last[:], sum) {
		return false
	}
	l.last[l.next] = sum
	l.next = (l.next + 1) % len(l.last)
	return true
}

// setOutcome sets all placeholders, because an unset one shows up as its own name.
func setOutcome(repl *caddy.Replacer, outcome, reason, job string) {
	repl.Set("http.anvil.outcome", outcome)
	repl.Set("http.anvil.reason", reason)
	repl.Set("http.anvil.job_id", job)
}
