package anvil

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-anvil/anvil/internal/capture"
	"github.com/caddy-anvil/anvil/internal/verify"
)

type verifyFlags struct {
	whoFlags
	url, at string
}

func verifyCommand() *cobra.Command {
	f := &verifyFlags{}
	cmd := &cobra.Command{
		Use:   "verify --provider <id> --secret <secret> [request-file]",
		Short: "Tells whether a saved request is genuine, and if not, why",
		Long: `
Reads a raw HTTP request from a file, or from the standard input for - or
none: the request line, the header fields, an empty line, and the body, which
is every byte up to the end, whatever Content-Length says. Lines of the head
may end with LF or CR LF.

Prints the verdict; for a genuine request the provider's event id and type and
the dedupe key; for a refused one the reason, with hints that were tried and
found to be true; for a handshake what is answered. Secrets, bodies and
expected signatures are never printed, and a subscription is not confirmed.

Exits with 0 for a genuine request or a handshake, with 1 for a refused one,
and with 2 if the input cannot be used.
` + whoHelp,
		Example: `  caddy anvil verify --provider stripe --secret env:STRIPE_SECRET --at 2026-01-01T12:00:00Z saved.http
  caddy anvil verify --provider twilio --secret @token --url https://example.com/in?a=b saved.http
  caddy anvil verify --provider hmac --secret env:S --option signature_header=X-Sig - < saved.http`,
		RunE: f.run,
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.url, "url", "", "the URL as the sender has it; default: as the request says, with https")
	cmd.Flags().StringVar(&f.at, "at", "", "when the request came, RFC 3339 or in seconds since 1970; default: now")
	return cmd
}

// verdict is what verify prints.
type verdict struct {
	Verdict   string         `json:"verdict"` // valid, handshake or refused
	Valid     bool           `json:"valid"`
	Provider  string         `json:"provider"`
	Reason    string         `json:"reason,omitempty"`
	Hints     []verdictHint  `json:"hints,omitempty"`
	Secret    int            `json:"secret,omitempty"` // the one that matched, counted from 1
	EventID   string         `json:"event_id,omitempty"`
	EventType string         `json:"event_type,omitempty"`
	Dedupe    *verdictDedupe `json:"dedupe,omitempty"`
	Handshake *verdictAnswer `json:"handshake,omitempty"`
	Notes     []string       `json:"notes,omitempty"`
}

type verdictHint struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

type verdictDedupe struct {
	Rule string `json:"rule"`
	Key  string `json:"key,omitempty"` // empty with the rule off
	TTL  int64  `json:"ttl_seconds,omitempty"`
	// AlsoKeys are claimed beside Key: either one known makes a duplicate.
	AlsoKeys []string `json:"also_keys,omitempty"`
}

type verdictAnswer struct {
	Status      int               `json:"status"`
	ContentType string            `json:"content_type,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Body        string            `json:"body"`
}

func (f *verifyFlags) run(cmd *cobra.Command, args []string) error {
	who, err := f.read(false)
	if err != nil {
		return unusable(cmd, err)
	}
	if who.provider.ID == providerNone {
		return unusable(cmd, errors.New("verify none proves nothing, so there is nothing to verify"))
	}
	now, err := readTime(f.at)
	if err != nil {
		return unusable(cmd, err)
	}
	c, err := readCapture(cmd.InOrStdin(), args, f.url)
	if err != nil {
		return unusable(cmd, err)
	}
	fetch := &lookingFetcher{Fetcher: verify.NewHTTPFetcher(nil, time.Now)}
	s, err := who.source(fetch)
	if err != nil {
		return unusable(cmd, err)
	}
	v := s.judge(cmd.Context(), &c.Request, now)
	v.Notes = slices.Concat(who.notes, c.Notes, fetch.notes, v.Notes)
	if f.at == "" && (v.Reason == string(verify.ReasonTooOld) || v.Reason == string(verify.ReasonTooNew)) {
		v.Notes = append(v.Notes, "the time is compared with now; --at says when a saved request came")
	}
	if limit := s.maxBody; int64(len(c.Body)) > limit {
		v.Notes = append(v.Notes, fmt.Sprintf("the body has %d bytes, and the directive refuses more than %d unless max_body allows it", len(c.Body), limit))
	}
	if f.json {
		err = printJSON(cmd.OutOrStdout(), v)
	} else {
		showNotes(cmd.ErrOrStderr(), v.Notes)
		err = v.print(cmd.OutOrStdout())
	}
	if err != nil {
		return unusable(cmd, fmt.Errorf("printing the verdict: %w", err))
	}
	return done(cmd, v.Valid)
}

func readTime(text string) (time.Time, error) {
	if text == "" {
		return time.Now(), nil
	}
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil && len(text) <= 11 {
		return time.Unix(seconds, 0), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, fmt.Errorf("--at '%s' is neither a time as in 2026-01-31T15:04:05Z nor seconds since 1970", text)
	}
	return t, nil
}

func readCapture(in io.Reader, args []string, sentTo string) (*capture.Capture, error) {
	switch {
	case len(args) > 1:
		return nil, fmt.Errorf("one request at a time: %d files are given", len(args))
	case len(args) == 1 && args[0] != "-":
		f, err := os.Open(args[0])
		if err != nil {
			return nil, fmt.Errorf("reading the request: %w", err)
		}
		defer f.Close()
		in = f
	}
	return capture.Read(in, sentTo, largestBody)
}

// source is the part of a directive's source that judges requests.
func (w *who) source(fetch verify.Fetcher) (*source, error) {
	v, err := verify.New(w.provider.ID, w.secrets, w.options, fetch)
	if err != nil {
		return nil, err
	}
	p := &proof{Verifier: v, provider: v.Provider(), secrets: len(w.secrets)}
	s := &source{cfg: SourceConfig{Verify: []VerifyConfig{{Provider: w.provider.ID}}}, proofs: []*proof{p}}
	s.maxBody = s.cfg.maxBody()
	p.keys, err = newKeyPlan(nil, p)
	return s, err
}

// judge takes a request through what the handler does with it, except that nothing is stored.
func (s *source) judge(ctx context.Context, r *verify.Request, now time.Time) *verdict {
	p := s.proofs[0]
	v := &verdict{Provider: p.provider.ID, Verdict: "refused"}
	if answer, of := s.handshake(ctx, r, nil, verify.Verdict{}); of != nil {
		v.shake(&answer)
		return v
	}
	t := s.prove(ctx, r, now)
	if t.verdict.OK {
		if answer, of := s.handshake(ctx, r, p, t.verdict); of != nil {
			v.shake(&answer)
			return v
		}
	}
	if !slices.Contains(p.provider.Methods, r.Method) && r.Method != http.MethodPost {
		v.Notes = append(v.Notes, "the directive refuses "+r.Method+" with 405: this provider does not use it for deliveries")
	}
	if !t.verdict.OK {
		v.Reason = string(t.verdict.Reason)
		for _, h := range p.Explain(ctx, r, now, nil) {
			v.Hints = append(v.Hints, verdictHint{h.Code, h.Text})
		}
		return v
	}
	v.Verdict, v.Valid = "valid", true
	if p.secrets > 0 {
		v.Secret = t.verdict.Secret + 1
	}
	v.EventType, v.EventID = p.EventFacts(r)
	keys := p.keys.of(&t, v.EventID, r, now)
	if len(keys) == 0 {
		v.Dedupe = &verdictDedupe{Rule: p.keys.rule.Kind}
		v.Notes = append(v.Notes, "different events of this provider may have the same body, so dedupe is off")
		return v
	}
	v.Dedupe = &verdictDedupe{Rule: p.keys.rule.Kind, Key: keys[0].Value, TTL: int64(keys[0].TTL / time.Second)}
	if v.Dedupe.Rule == "event_id" && v.EventID == "" {
		v.Dedupe.Rule = p.keys.rule.Otherwise
		v.Notes = append(v.Notes, "the request has no event id, so dedupe takes the rule "+v.Dedupe.Rule)
	}
	for _, k := range keys[1:] {
		v.Dedupe.AlsoKeys = append(v.Dedupe.AlsoKeys, k.Value)
	}
	return v
}

// shake notes the answer to a handshake, less the secret that the provider hands over in some.
func (v *verdict) shake(a *verify.Answer) {
	v.Handshake = &verdictAnswer{Status: a.Status, ContentType: a.ContentType, Headers: map[string]string{}, Body: a.Body}
	for name, value := range a.Headers {
		if a.Token != "" && value == a.Token {
			value = "(the secret that is handed over)"
		}
		v.Handshake.Headers[name] = value
	}
	if a.Status >= http.StatusBadRequest {
		v.Reason = "handshake"
		return
	}
	v.Verdict, v.Valid = "handshake", true
}

func (v *verdict) print(w io.Writer) error {
	var b bytes.Buffer
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s "+format+"\n", append([]any{label}, args...)...)
	}
	line("verdict", "%s", v.Verdict)
	line("provider", "%s", v.Provider)
	if v.Reason != "" {
		line("reason", "%s: %s", v.Reason, reasonSays[verify.Reason(v.Reason)])
	}
	for _, h := range v.Hints {
		line("hint", "%s (%s)", h.Text, h.Code)
	}
	if v.Secret > 0 {
		line("secret", "%d matches", v.Secret)
	}
	if v.EventID != "" {
		line("event id", "%s", v.EventID)
	}
	if v.EventType != "" {
		line("event type", "%s", v.EventType)
	}
	if d := v.Dedupe; d != nil && d.Key == "" {
		line("dedupe", "%s", d.Rule)
	} else if d != nil {
		line("dedupe", "%s, %s", d.Rule, shortDuration(time.Duration(d.TTL)*time.Second))
		line("dedupe key", "%s", d.Key)
		for _, k := range d.AlsoKeys {
			line("also key", "%s", k)
		}
	}
	if a := v.Handshake; a != nil {
		line("answer", "%d %s", a.Status, a.ContentType)
		for _, name := range slices.Sorted(maps.Keys(a.Headers)) {
			line("header", "%s: %s", name, a.Headers[name])
		}
		line("body", "%q", a.Body)
	}
	_, err := b.WriteTo(w)
	return err
}

// reasonSays are the reasons of a refusal in words.
var reasonSays = map[verify.Reason]string{
	verify.ReasonMissing:        "the signature, or its time or id, is missing or empty",
	verify.ReasonRepeated:       "the signature, or its time or id, is there more than once",
	verify.ReasonMalformed:      "the signature has not the form, length or encoding of this provider's",
	verify.ReasonUnsupported:    "the signature is of a version or algorithm that is not accepted",
	verify.ReasonBadTimestamp:   "the signed time cannot be read",
	verify.ReasonTooOld:         "the signed time is too long ago",
	verify.ReasonTooNew:         "the signed time is too far ahead",
	verify.ReasonNoMatch:        "the signature is well-formed, but made with another secret or for another request",
	verify.ReasonWrongClaim:     "it is genuine, but not meant for us, as a claim, certificate or topic says",
	verify.ReasonNoSecret:       "no secret is given, so only handshakes are answered",
	verify.ReasonKeyUnavailable: "the provider's key could not be fetched",
	"handshake":                 "the token or challenge of the handshake is not right",
}

// lookingFetcher gets keys and certificates, and does not confirm subscriptions: that is for the endpoint to do.
type lookingFetcher struct {
	verify.Fetcher
	notes []string
}

func (f *lookingFetcher) Fetch(ctx context.Context, address string, maxAge time.Duration) ([]byte, error) {
	if u, err := url.Parse(address); err == nil && u.Query().Get("Action") == "ConfirmSubscription" {
		f.notes = append(f.notes, "the subscription is not confirmed by this: only the running directive does that")
		return nil, nil
	}
	return f.Fetcher.Fetch(ctx, address, maxAge)
}
