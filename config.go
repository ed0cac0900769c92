package anvil

import (
	"encoding/json"

	"github.com/caddyserver/caddy/v2"
)

// The defaults of the settings that the configuration leaves out.
const (
	defaultQueue            = "webhooks"
	defaultEndpoint         = "default"
	defaultMaxBody          = 256 << 10
	defaultMaxInFlightBytes = 256 << 20
)

// SourceConfig describes a source: a named receiver of one provider's webhooks, and where they go.
//
// The same words configure the handler and the sources of the app. A handler that gives nothing but the name uses the
// app's source of that name.
type SourceConfig struct {
	// The name of the source. It is stored with every event and is part of every dedupe key and endpoint identity, so it
	// should never change. A lower-case letter, then up to 62 lower-case letters, digits, hyphens and underscores.
	// Required.
	Source string `json:"source,omitempty"`

	// How a webhook proves that it is genuine. Any one of several that matches is enough. Required, so that a source
	// without proof has to say so with the provider `none`, which must then be the only entry.
	Verify []VerifyConfig `json:"verify,omitempty"`

	// The base of the URL that senders were given, as in `https://hooks.example.com` or, where a proxy in front takes a
	// prefix off the path, `https://example.com/prefix`. Schemes that sign the URL need it when a proxy changes it.
	// Default: scheme and host of the request, or what a trusted proxy says of them.
	PublicURL string `json:"public_url,omitempty"`

	// What makes two webhooks the same. Default: what is right for the provider.
	Dedupe *DedupeConfig `json:"dedupe,omitempty"`

	// A placeholder whose value for the request tells tenants apart, for example `{http.request.host}`. It is part of the
	// dedupe key, is stored, can be searched for and is sent to the endpoint. It is never a label of a metric.
	// Default: no tenants.
	Tenant string `json:"tenant,omitempty"`

	// The queue whose policy the deliveries follow. Any other than `webhooks` must be among the app's queues.
	// Default: webhooks.
	Queue string `json:"queue,omitempty"`

	// Where each webhook is delivered; each endpoint gets a job of its own. With none, webhooks are stored and never sent.
	Endpoints []EndpointConfig `json:"endpoints,omitempty"`

	// The largest body, in bytes; a larger one is refused with 413. At most 512 MiB. Default: what the provider says it may
	// send (GitHub: 25 MiB), else 262144 (256 KiB).
	MaxBody int64 `json:"max_body,omitempty"`

	// How many requests may be under way at once; one more is refused with 429. Default: 1000.
	MaxInFlight int `json:"max_in_flight,omitempty"`

	// How many bytes the bodies under way may take together; a request beyond that is refused with 429. It must have room
	// for one body of the largest size. Default: 268435456 (256 MiB).
	MaxInFlightBytes int64 `json:"max_in_flight_bytes,omitempty"`

	// How long the sender may take for the body, at most 1h; a slower one is refused with 408. Default: 10s.
	ReadTimeout caddy.Duration `json:"read_timeout,omitempty"`

	// How many requests may come in a window of time, at most once for each scope; more are refused with 429.
	// Default: no limit.
	RateLimit []RateLimitConfig `json:"rate_limit,omitempty"`

	// The answer to an accepted webhook. Default: what the provider needs, else 202 with the ids of its jobs as JSON.
	Respond *RespondConfig `json:"respond,omitempty"`
}

// VerifyConfig is one way in which a webhook may prove that it is genuine.
type VerifyConfig struct {
	// Who signs: the id of a provider, such as `github` or `stripe` (`caddy anvil providers` lists them); one of the schemes
	// `hmac`, `standard-webhooks`, `token`, `basic`, `ed25519` and `jwt`, which options describe for any other sender; or
	// `none` to accept webhooks that prove nothing. Required.
	Provider string `json:"provider,omitempty"`

	// The secrets, newest first; any of them may match, so that a secret can be changed without a gap. A placeholder such as
	// `{env.GITHUB_SECRET}` or `{file./run/secrets/github}` is read when the configuration is loaded and stays out of the
	// stored configuration, unlike a literal secret; every line of a file is a secret, and so is every PEM block, and a whole
	// file of JSON. Those of your own making, as for `hmac`, need at least 16 characters. Required, except for providers
	// that have none and those of which the first request brings it.
	Secrets []string `json:"secrets,omitempty"`

	// What the provider's scheme takes besides, by its words, as in `{"signature_header":"X-Sign","tolerance":"5m"}`. A list
	// is one text with blanks between its items. Placeholders are replaced when the configuration is loaded, except in
	// `template`. Default: what the provider documents.
	Options map[string]string `json:"options,omitempty"`

	// Whether webhooks that are not proved are let in all the same, marked as unverified, and counted by why they would have
	// been refused; to try a secret out before it counts. Warns at every load. Default: false.
	ReportOnly bool `json:"report_only,omitempty"`
}

// DedupeConfig says what makes two webhooks of a source (and tenant) the same. The second one is answered with the ids of
// the first and is not stored.
type DedupeConfig struct {
	// What the key is made of:
	//
	// - `event_id`: the provider's id of the event. Where the signature does not cover it, a hash of what is signed is
	//   remembered beside it for as long as a captured webhook could be sent again. A webhook without an id is known by
	//   signature or body, as is right for the provider.
	// - `signature`: the signature and the body. Not for sources that verify nothing.
	// - `body`: the body.
	// - `header`: the values of the header fields listed in `fields`.
	// - `json`: the values at the JSON pointers (RFC 6901) listed in `fields`.
	// - `form`: the values of the form fields listed in `fields`.
	// - `off`: nothing is a duplicate.
	//
	// Where a listed field is missing in a request, the body makes the key. Mind that a header which the signature does not
	// cover can be changed by whoever has captured a request, to get past this check.
	// Default: event_id where the provider repeats a signed id, signature where a repeated webhook is signed the same way,
	// else body.
	Key string `json:"key,omitempty"`

	// The header names, JSON pointers or form fields; required for those keys and refused for the others.
	Fields []string `json:"fields,omitempty"`

	// How long a key is remembered, counted from when its webhook was accepted. Default: 168h, or longer where the provider
	// tries again for longer.
	TTL caddy.Duration `json:"ttl,omitempty"`
}

// EndpointConfig is a destination of a source. Settings that it leaves out are those of the source's queue.
type EndpointConfig struct {
	// The name, unique within the source and of the same form as a source's. It is stored with every job: a job finds its
	// endpoint's current settings by source and name. Default: default.
	Name string `json:"name,omitempty"`

	// Where to deliver: `http://host[:port][/path][?query]`, the same with https, or `host:port` and `:port` for plain http.
	// Without a path the path and query of the webhook itself are used; with one, even `/`, exactly that. Required.
	Upstream string `json:"upstream,omitempty"`

	// How long one attempt may take until the status arrives, at most 1h. Default: the queue's.
	Timeout caddy.Duration `json:"timeout,omitempty"`

	// When to try again after a failed attempt. Default: the queue's.
	Retry *RetryConfig `json:"retry,omitempty"`

	// How many attempts may run at once, in each Caddy instance; at most 10000. Default: the queue's.
	Concurrency int `json:"concurrency,omitempty"`
}

// RetryConfig says when a failed delivery is tried again. Delays count from the end of an attempt. When no further try is
// left the job is dead, and can be replayed.
type RetryConfig struct {
	// The kind of schedule:
	//
	// - `fixed`: the waits listed in `delays`.
	// - `patient`: 1s 5s 30s 2m 10m 30m 1h 2h 4h 8h 8h, about a day.
	// - `exponential`: `base`, doubled after each failure up to `cap`.
	// - `off`: one attempt only.
	//
	// Default: fixed.
	Schedule string `json:"schedule,omitempty"`

	// The wait before each retry, up to 100 of them, each at most 30 days. Required for `fixed`, refused for the others.
	Delays []caddy.Duration `json:"delays,omitempty"`

	// The wait before the first retry, at most 30 days. Only for `exponential`. Default: 1s.
	Base caddy.Duration `json:"base,omitempty"`

	// The longest wait, at most 30 days and not below `base`. Only for `exponential`. Default: 1h.
	Cap caddy.Duration `json:"cap,omitempty"`

	// How many attempts there are in all, the first included; at most 100. Only for `exponential`. Default: 12.
	Attempts int `json:"attempts,omitempty"`

	// How far a wait may differ by chance, as a share of it from 0 to 1, so that jobs which failed together do not come
	// back together. Only for `exponential`. Default: 0.2.
	Jitter *float64 `json:"jitter,omitempty"`
}

// RateLimitConfig limits how many requests may come in a window of time.
type RateLimitConfig struct {
	// What is counted: `ip`, each client address by itself (IPv6 by its /64 network), before anything is verified; or
	// `source`, all verified webhooks of the source together, or all that come when nothing verifies. Required.
	Scope string `json:"scope,omitempty"`

	// How many may come in the window. Required.
	Events int `json:"events,omitempty"`

	// The length of the window. Required.
	Window caddy.Duration `json:"window,omitempty"`
}

// RespondConfig is the answer to an accepted webhook, for providers that are particular about it.
type RespondConfig struct {
	// The HTTP status, 200 to 299. Default: 202.
	Status int `json:"status,omitempty"`

	// The body, sent as it is in place of the JSON with the job's id; it may be empty. Refused for 204 and 205, which have no
	// body. Default: the JSON.
	Body *string `json:"body,omitempty"`
}

// AppConfig is what the sources of a configuration share.
type AppConfig struct {
	// Where events, jobs and keys are kept. Default: `sqlite` at its default path.
	StoreRaw json.RawMessage `json:"store,omitempty" caddy:"namespace=anvil.stores inline_key=module"`

	// The policies of delivery by name; names have the same form as a source's. The queue `webhooks` is always there, with
	// the defaults unless it is listed here.
	Queues map[string]QueueConfig `json:"queues,omitempty"`

	// Sources that handlers may refer to by name. Their endpoints are delivered to even where no site receives for them, so
	// that a machine can deliver without serving the site.
	Sources []SourceConfig `json:"sources,omitempty"`

	// Whether this instance delivers. With false it only receives. Default: true.
	Workers *bool `json:"workers,omitempty"`

	// How long attempts under way may still take when Caddy exits. A service manager has to allow Caddy more than this
	// before it kills. Default: 4s.
	DrainTimeout caddy.Duration `json:"drain_timeout,omitempty"`

	// How long a due job may wait for its endpoint to be configured; then it is dead. Default: 24h.
	OrphanAfter caddy.Duration `json:"orphan_after,omitempty"`
}

// QueueConfig is a policy of delivery. Every endpoint in the queue has slots of its own.
type QueueConfig struct {
	// How many attempts may run at once for each endpoint, in each Caddy instance; at most 10000. Default: 8.
	Concurrency int `json:"concurrency,omitempty"`

	// When to try again after a failed attempt. Default: fixed, after 1s, 5s and 30s.
	Retry *RetryConfig `json:"retry,omitempty"`

	// How long one attempt may take until the status arrives, at most 1h. Default: 15s.
	Timeout caddy.Duration `json:"timeout,omitempty"`

	// How many jobs may be pending or running; further webhooks get 503 until there is room. Default: 1000000.
	MaxPending int `json:"max_pending,omitempty"`

	// How long jobs that have ended keep their body and ledger, by state: `delivered`, `dead`, `cancelled`, `replayed`,
	// `observed`. Default: 24h for delivered, 168h for observed, 720h for the others.
	Retain map[string]caddy.Duration `json:"retain,omitempty"`
}

// HealthConfig selects what a health check reports.
type HealthConfig struct {
	// `ready`: 200 when the store works and the workers run (unless they are off), else 503. `live`: 200 as long as the
	// process serves. Default: ready.
	Kind string `json:"kind,omitempty"`
}
