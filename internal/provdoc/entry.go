package provdoc

import (
	"time"

	"github.com/caddy-anvil/anvil/internal/verify"
)

// Entry is a provider as JSON. Times are in seconds, with -1 for no limit; what a provider does not have is left out.
type Entry struct {
	ID             string   `json:"id"`
	Aliases        []string `json:"aliases,omitempty"`
	Name           string   `json:"name"`
	Family         string   `json:"family"`
	Docs           string   `json:"docs,omitempty"`
	Unconfirmed    bool     `json:"unconfirmed"`
	Proves         bool     `json:"proves"`
	CoversBody     bool     `json:"covers_body"`
	Secret         string   `json:"secret"`
	SecretOptional bool     `json:"secret_optional"`
	MinSecret      int      `json:"min_secret,omitempty"`
	Options        []string `json:"options,omitempty"`
	Needs          []string `json:"needs,omitempty"`
	SignatureIn    string   `json:"signature_in,omitempty"`
	TimestampIn    string   `json:"timestamp_in,omitempty"`
	Past           int64    `json:"past_seconds,omitempty"`
	Future         int64    `json:"future_seconds,omitempty"`
	EventID        string   `json:"event_id,omitempty"`
	EventIDStable  bool     `json:"event_id_stable"`
	EventIDSigned  bool     `json:"event_id_signed"`
	EventType      string   `json:"event_type,omitempty"`
	Dedupe         string   `json:"dedupe"`
	DedupeTTL      int64    `json:"dedupe_ttl_seconds"`
	MaxBody        int64    `json:"max_body,omitempty"`
	Methods        []string `json:"methods"`
	Handshakes     []string `json:"handshakes,omitempty"`
	Accepted       *Reply   `json:"accepted,omitempty"`
	Refused        *Reply   `json:"refused,omitempty"`
	Traps          string   `json:"traps,omitempty"`
	Interactive    string   `json:"interactive,omitempty"`
	Caddyfile      string   `json:"caddyfile"`
}

// Reply is an answer that a provider gets in place of the gateway's own.
type Reply struct {
	Status      int    `json:"status"`
	ContentType string `json:"content_type,omitempty"`
	Body        string `json:"body"`
}

// Describe makes the entry of a provider.
func Describe(p *verify.Provider) Entry {
	e := Entry{
		ID: p.ID, Aliases: p.Aliases, Name: p.Name, Family: string(p.Family), Docs: p.Docs, Unconfirmed: p.Unconfirmed, Proves: p.Proves,
		CoversBody: p.CoversBody, Secret: p.Secret, SecretOptional: p.SecretOptional, MinSecret: p.MinSecret, Options: p.Options, Needs: p.Needs,
		SignatureIn: p.SignatureIn, TimestampIn: p.TimestampIn, EventID: p.EventID, EventIDStable: p.IDStable, EventIDSigned: p.IDSigned,
		EventType: p.EventType, Dedupe: p.Dedupe, DedupeTTL: seconds(p.DedupeTTL), MaxBody: p.MaxBody, Methods: p.Methods,
		Handshakes: p.Handshakes, Accepted: replyOf(&p.Accepted), Refused: replyOf(&p.Refused), Traps: p.Traps, Interactive: p.Interactive,
		Caddyfile: Example(p),
	}
	if p.Past != 0 {
		e.Past, e.Future = seconds(p.Past), seconds(p.Future)
	}
	return e
}

func replyOf(a *verify.Answer) *Reply {
	if a.Status == 0 {
		return nil
	}
	return &Reply{a.Status, a.ContentType, a.Body}
}

func seconds(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return int64(d.Round(time.Second) / time.Second)
}
