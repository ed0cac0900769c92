// Package anvil makes webhooks reliable inside Caddy.
//
// The directive anvil receives a provider's webhook, proves that it is genuine, drops duplicates, stores it durably and
// answers. The app anvil delivers each stored job to an HTTP endpoint, tries again when that fails, and parks what never
// succeeds, from where it can be replayed.
//
// This package is the glue to Caddy: it parses, provisions and hands over. The pipeline itself is under internal/ and
// knows nothing of Caddy.
package anvil

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
)

func init() {
	caddy.RegisterModule(new(App))
	caddy.RegisterModule(new(Handler))
	caddy.RegisterModule(new(Health))
	caddy.RegisterModule(new(AdminAPI))
	caddy.RegisterModule(new(SQLiteStore))
	caddy.RegisterModule(new(RedisStore))
	caddycmd.RegisterCommand(command())

	httpcaddyfile.RegisterGlobalOption("anvil", parseGlobalOption)
	httpcaddyfile.RegisterHandlerDirective("anvil", parseDirective)
	httpcaddyfile.RegisterHandlerDirective("anvil_health", parseHealthDirective)
	// Both end the request, so they come after what guards a site (authentication, encoding) and before what serves it: in
	// the standard order a terminal directive near respond would never run beside a catch-all handle.
	httpcaddyfile.RegisterDirectiveOrder("anvil", httpcaddyfile.After, "templates")
	httpcaddyfile.RegisterDirectiveOrder("anvil_health", httpcaddyfile.After, "templates")
}
