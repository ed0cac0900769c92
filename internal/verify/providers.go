package verify

import (
	"slices"
	"strings"
)

// row is one provider: what it signs with, and what its requests tell besides.
type row struct {
	id string
	// generic rows are no provider's own: the user's Options say how the sender signs.
	generic bool
	// maxBody is the largest body that the provider ever sends, in bytes; 0 when it states none.
	maxBody int64
	// eventType and eventID are canonical header names, empty when the provider sends none.
	eventType, eventID string
	scheme             hmacBody
}

// table is sorted by id.
var table = []row{
	{
		// https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
		// GitHub also sends X-Hub-Signature with SHA-1. It is ignored: a sender must not choose the weaker one.
		id:        "github",
		maxBody:   25 << 20,
		eventType: "X-Github-Event",
		eventID:   "X-Github-Delivery",
		scheme:    hmacBody{header: "X-Hub-Signature-256", algorithm: sha256Algorithm, encoding: hexEncoding, prefix: "sha256="},
	},
	{
		id:      "hmac",
		generic: true,
		scheme:  hmacBody{header: "X-Signature", algorithm: sha256Algorithm, encoding: hexEncoding, prefix: "sha256="},
	},
}

// Provider is what a configuration needs to know of a provider before it makes a Verifier.
type Provider struct {
	// ID is the word that selects the provider in a configuration.
	ID string
	// Generic providers take Options, and their secrets are of the user's own making.
	Generic bool
	// MaxBody is the largest body that the provider sends, in bytes; 0 when it states no maximum.
	MaxBody int64
}

// Providers returns all providers, sorted by id.
func Providers() []Provider {
	out := make([]Provider, 0, len(table))
	for i := range table {
		out = append(out, table[i].public())
	}
	return out
}

// Lookup returns a provider by its id, in which "_" may stand for "-".
func Lookup(id string) (Provider, bool) {
	r, ok := find(id)
	return r.public(), ok
}

// Known reports whether Lookup finds the provider.
func Known(provider string) bool {
	_, ok := find(provider)
	return ok
}

func (r *row) public() Provider {
	return Provider{ID: r.id, Generic: r.generic, MaxBody: r.maxBody}
}

func find(id string) (row, bool) {
	id = strings.ReplaceAll(id, "_", "-")
	i := slices.IndexFunc(table, func(r row) bool { return r.id == id })
	if i < 0 {
		return row{}, false
	}
	return table[i], true
}

func knownIDs() string {
	ids := make([]string, 0, len(table))
	for i := range table {
		ids = append(ids, table[i].id)
	}
	return strings.Join(ids, ", ")
}
