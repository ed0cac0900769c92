package anvil

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-anvil/anvil/internal/sample"
	"github.com/caddy-anvil/anvil/internal/verify"
)

const (
	sendTimeout = 30 * time.Second
	// mostSent bounds slips of the finger: it is a tool for trying, not for load.
	mostSent = 10_000
)

type sendFlags struct {
	whoFlags
	private, event, eventType string
	publicURL                 string
	count, again              int
}

func sendCommand() *cobra.Command {
	f := &sendFlags{}
	cmd := &cobra.Command{
		Use:   "send <url> --provider <id> --secret <secret>",
		Short: "Sends a webhook that is signed as the provider signs",
		Long: `
Sends an event to a URL and tells what became of it. Without --event the event
is made up, with its id and type where the provider puts them, and each of
--count is another one. A file given by --event is sent as it is, unless the
provider puts the signature into the body; the event is then the same each
time, though signed anew. --duplicate sends the same bytes once more, as a
provider does that has not got an answer.

Providers that sign with a private key need one of your own by --private-key;
the endpoint must then have its public key as secret.

A site with "tls internal" is trusted with the environment's SSL_CERT_FILE set
to pki/authorities/local/root.crt in Caddy's data directory.

Exits with 0 if all were accepted, with 1 if any was not, and with 2 if the
input cannot be used.
` + whoHelp,
		Example: `  caddy anvil send https://hooks.example.com/github --provider github --secret env:GITHUB_SECRET --type push
  caddy anvil send http://localhost:8080/in --provider stripe --secret @secret --event event.json --duplicate 1
  caddy anvil send http://localhost:8080/in --provider hmac --secret env:S --option signature_header=X-Sig --count 10`,
		RunE: f.run,
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.private, "private-key", "", "the private key that signs, PEM, JWK or the seed of Ed25519: text, @file or env:NAME")
	cmd.Flags().StringVar(&f.publicURL, "public-url", "", "the URL to sign, where the provider has another than <url>: whole, with path and query")
	cmd.Flags().StringVar(&f.event, "event", "", "a file with the body, - for the standard input; default: a made-up event")
	cmd.Flags().StringVar(&f.eventType, "type", "", "the type of the event")
	cmd.Flags().IntVar(&f.count, "count", 1, "how many events to send")
	cmd.Flags().IntVar(&f.again, "duplicate", 0, "how often to send each of them again")
	return cmd
}

// sender sends events of one kind.
type sender struct {
	*who
	private   string
	url       string
	publicURL string
	eventType string
	body      []byte
	given     bool // the body is the user's
	client    *http.Client
}

// sent is what became of one request.
type sent struct {
	Outcome string `json:"outcome"` // accepted, duplicate, refused, foreign or failed
	Status  int    `json:"status,omitempty"`
	JobID   string `json:"job_id,omitempty"`
	// Replayed is null unless anvil took the webhook.
	Replayed *bool  `json:"replayed"`
	Error    string `json:"error,omitempty"`
}

func (s *sent) ok() bool { return s.Outcome == "accepted" || s.Outcome == "duplicate" }

func (f *sendFlags) run(cmd *cobra.Command, args []string) error {
	s, err := f.sender(cmd.InOrStdin(), args)
	if err != nil {
		return unusable(cmd, err)
	}
	if f.count < 1 || f.again < 0 || f.count > mostSent || f.again > mostSent || f.count*(f.again+1) > mostSent {
		return unusable(cmd, fmt.Errorf("--count must be at least 1, --duplicate at least 0, and together no more than %d requests", mostSent))
	}
	out := cmd.OutOrStdout()
	if !f.json {
		showNotes(cmd.ErrOrStderr(), s.notes)
	}
	all, accepted := []sent{}, 0
	for range f.count {
		r, err := s.signed()
		if err != nil {
			return unusable(cmd, err)
		}
		for range f.again + 1 {
			result := s.send(cmd.Context(), r)
			all = append(all, result)
			if result.ok() {
				accepted++
			}
			if !f.json {
				result.print(out, len(all))
			}
		}
	}
	if f.json {
		err = printJSON(out, map[string]any{
			"provider": s.provider.ID, "url": s.url, "sent": len(all), "accepted": accepted, "requests": all, "notes": append([]string{}, s.notes...),
		})
		if err != nil {
			return unusable(cmd, fmt.Errorf("printing the answers: %w", err))
		}
	}
	return done(cmd, accepted == len(all))
}

func (f *sendFlags) sender(in io.Reader, args []string) (*sender, error) {
	if len(args) != 1 {
		return nil, errors.New("one URL to send to is needed, as in: caddy anvil send http://localhost:8080/hooks/github --provider github --secret …")
	}
	u, err := url.Parse(args[0])
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("'%s' is not a URL to send to; write it whole, as in http://localhost:8080/hooks/github", args[0])
	}
	s := &sender{url: args[0], publicURL: f.publicURL, eventType: f.eventType}
	if f.private != "" {
		keys, err := readSecrets("--private-key", f.private)
		if err != nil {
			return nil, err
		}
		// OpenSSL writes the parameters of a curve before the key.
		i := slices.IndexFunc(keys, func(k string) bool { return strings.Contains(k, "PRIVATE KEY") })
		s.private = keys[max(i, 0)]
	}
	if s.who, err = f.read(f.private != ""); err != nil {
		return nil, err
	}
	if f.event != "" {
		if s.body, err = readEvent(in, f.event); err != nil {
			return nil, err
		}
		s.given = true
	}
	s.client = &http.Client{
		Timeout: sendTimeout,
		// No provider follows a redirect with a webhook.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s, nil
}

func readEvent(in io.Reader, file string) ([]byte, error) {
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("reading the event: %w", err)
		}
		defer f.Close()
		in = f
	}
	body, err := io.ReadAll(io.LimitReader(in, largestBody+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the event: %w", err)
	case len(body) > largestBody:
		return nil, fmt.Errorf("the event has more than %s, the most that can be accepted", bytesUnit(largestBody))
	}
	return body, nil
}

// signed makes a request that the provider could have sent.
func (s *sender) signed() (*verify.Request, error) {
	var r *verify.Request
	var err error
	if s.given {
		r, err = sample.WithBody(s.provider, s.url, s.eventType, s.body)
	} else {
		r, err = sample.Event(s.provider, s.url, s.eventType)
	}
	if err != nil {
		return nil, err
	}
	if !s.provider.Proves {
		return r, nil
	}
	k := verify.SignKeys{Private: s.private}
	if len(s.secrets) > 0 {
		k.Secret = s.secrets[0]
	}
	if s.publicURL != "" {
		r.URL = s.publicURL
	}
	if err := verify.Sign(s.provider.ID, k, s.options, r, time.Now()); err != nil {
		return nil, err
	}
	if s.publicURL != "" { // what signing has put into the query stays
		base, _, _ := strings.Cut(s.url, "?")
		_, query, found := strings.Cut(r.URL, "?")
		r.URL = base
		if found {
			r.URL += "?" + query
		}
	}
	return r, nil
}

func (s *sender) send(ctx context.Context, r *verify.Request) sent {
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return sent{Outcome: "failed", Error: err.Error()}
	}
	req.Header = r.Header.Clone()
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "caddy-anvil-send")
	}
	res, err := s.client.Do(req)
	if err != nil {
		// The URL may hold a signature or a token, and the user knows it.
		if u := new(url.Error); errors.As(err, &u) {
			err = u.Err
		}
		return sent{Outcome: "failed", Error: err.Error()}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err != nil {
		return sent{Outcome: "failed", Status: res.StatusCode, Error: "reading the answer: " + err.Error()}
	}
	return s.read(res, body)
}

// read tells anvil's answers from those of others by the id of a job, which all that is accepted gets, and by its errors.
func (s *sender) read(res *http.Response, body []byte) sent {
	var ours struct {
		Error string `json:"error"`
	}
	_ = json.Unmarshal(body, &ours) // an answer that is none of ours has none
	out := sent{Status: res.StatusCode, JobID: res.Header.Get("Anvil-Job-Id")}
	refused := &s.provider.Refused
	switch ok := res.StatusCode >= 200 && res.StatusCode < 300; {
	case ok && out.JobID != "":
		replayed := res.Header.Get("Anvil-Replayed") == "true"
		out.Outcome, out.Replayed = "accepted", &replayed
		if replayed {
			out.Outcome = "duplicate"
		}
	case !ok && ours.Error != "" && isCode(ours.Error):
		out.Outcome, out.Error = "refused", ours.Error
	case refused.Status != 0 && res.StatusCode == refused.Status && string(body) == refused.Body:
		out.Outcome, out.Error = "refused", "invalid_signature"
	default:
		out.Outcome = "foreign"
		out.Error = "no Anvil-Job-Id: something other than anvil answered. Another directive handled this path first, or anvil is on another path or host"
		if ok && len(s.provider.Handshakes) > 0 {
			out.Error += "; or anvil took it for a handshake"
		}
		if to := res.Header.Get("Location"); to != "" {
			out.Error += fmt.Sprintf(" (redirected to %.200q)", to)
		}
	}
	return out
}

// isCode reports whether a text looks like one of our error codes, so that it can be shown.
func isCode(text string) bool {
	return len(text) < 40 && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz_") == ""
}

func (s *sent) print(w io.Writer, n int) {
	fmt.Fprintf(w, "%d  %-9s", n, s.Outcome)
	if s.Status != 0 {
		fmt.Fprintf(w, "  status %d", s.Status)
	}
	if s.JobID != "" {
		fmt.Fprintf(w, "  Anvil-Job-Id %s", s.JobID)
	}
	switch {
	case s.ok() && s.Replayed != nil:
		fmt.Fprintf(w, "  replayed %t", *s.Replayed)
	case s.Error != "":
		fmt.Fprintf(w, "  %s", s.Error)
	}
	if s.Error == "invalid_signature" {
		fmt.Fprint(w, " (the reason is in Caddy's log)")
	}
	fmt.Fprintln(w)
}
