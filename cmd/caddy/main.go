// Command caddy is Caddy with the anvil plugin compiled in.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-anvil/anvil"
)

func main() {
	caddycmd.Main()
}
