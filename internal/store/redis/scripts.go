package redis

import (
	"crypto/sha1" //nolint:gosec // the name under which Redis keeps a script, no protection
	"embed"
	"encoding/hex"
	"fmt"
	"strings"
)

// layoutVersion is the version of keys and records. A program refuses a layout that is newer than its own.
const layoutVersion = "1"

//go:embed lua/*.lua
var sources embed.FS

// script is one transition. Nothing comes between its commands.
type script struct {
	name string
	// keys are the names, below the prefix, of the keys that it always uses.
	keys      []string
	text, sha string
}

// Every key that a script touches is declared: these, and those that its caller adds.
var (
	scriptAccept   = newScript("accept", "meta", "jobs", "counts", "events")
	scriptClaim    = newScript("claim", "meta", "jobs", "counts", "leases", "running", "claims", "claimed")
	scriptRenew    = newScript("renew", "meta", "jobs", "leases")
	scriptFinish   = newScript("finish", "meta", "jobs", "counts", "leases", "running", "ledger")
	scriptRelease  = newScript("release", "meta", "jobs", "counts", "leases", "running")
	scriptExpired  = newScript("expired", "meta", "jobs", "leases", "running")
	scriptRecover  = newScript("recover", "meta", "jobs", "counts", "leases", "running", "ledger")
	scriptCancel   = newScript("cancel", "meta", "jobs", "counts")
	scriptReplay   = newScript("replay", "meta", "jobs", "counts", "replays")
	scriptNote     = newScript("note", "meta", "noted")
	scriptRecount  = newScript("recount", "meta", "jobs", "counts", "running")
	scriptOrphans  = newScript("orphans", "meta", "jobs", "counts", "noted")
	scriptPrunable = newScript("prunable", "meta", "jobs", "spent")
	scriptPrune    = newScript("prune", "meta", "jobs", "counts", "events", "replays", "ledger", "spent")
	scriptForget   = newScript("forget", "meta", "jobs", "replays", "spent")
	scriptCheck    = newScript("check", "meta")
	scriptJob      = newScript("job", "meta", "jobs", "ledger")
	scriptEvent    = newScript("event", "meta", "jobs", "replays")
	scriptHeads    = newScript("heads", "meta")
	scriptStats    = newScript("stats", "meta", "counts", "noted")
)

func newScript(name string, keys ...string) *script {
	var b strings.Builder
	for i, key := range keys {
		fmt.Fprintf(&b, "local %s = KEYS[%d]\n", key, i+1)
	}
	fmt.Fprintf(&b, "local DECLARED, LAYOUT = %d, '%s'\n", len(keys), layoutVersion)
	b.WriteString(source("prelude"))
	b.WriteString(source(name))
	sum := sha1.Sum([]byte(b.String())) //nolint:gosec // as above
	return &script{name: name, keys: keys, text: b.String(), sha: hex.EncodeToString(sum[:])}
}

func source(name string) string {
	b, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // embedded: it is there or the program was not built
	}
	return string(b)
}
