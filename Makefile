.DEFAULT_GOAL := help

GO      ?= go
GOLANGCI = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
XCADDY   = github.com/caddyserver/xcaddy/cmd/xcaddy@v0.4.5
MODULE   = github.com/caddy-anvil/anvil

.PHONY: help run build test redis bench docs lint fmt xcaddy

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## start Caddyfile.example: a receiver on :8080 and an upstream that shows what arrives
	$(GO) run ./cmd/caddy run --config Caddyfile.example

build: ## build Caddy with the plugin into bin/caddy
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/caddy ./cmd/caddy

test: redis ## run every test with the race detector, the end-to-end tests included (needs a C compiler)
	CGO_ENABLED=1 ANVIL_NEED_REDIS=1 $(GO) test -race -timeout 20m ./...

redis: ## install redis-server and redis-sentinel for the tests where they are missing (apt-get or brew)
	@.ci/redis

bench: ## measure accept rate, latency and drain rate beside plain Caddy; ARGS=-quick for a short run
	$(GO) run ./internal/bench $(ARGS)

docs: ## write docs/providers.md from the table of providers
	$(GO) run ./cmd/caddy anvil providers --markdown >docs/providers.new && mv docs/providers.new docs/providers.md

# Tools are run by version and not required by go.mod: their dependencies are none of this module's.
lint: ## run golangci-lint
	$(GO) run $(GOLANGCI) run --allow-parallel-runners

fmt: ## format the Go sources and the example
	$(GO) run $(GOLANGCI) fmt
	$(GO) run ./cmd/caddy fmt --overwrite Caddyfile.example

xcaddy: ## build bin/xcaddy-caddy the way users do, and list the plugin's modules in it
	CGO_ENABLED=0 $(GO) run $(XCADDY) build --output bin/xcaddy-caddy --with $(MODULE)@v0.0.0=.
	@bin/xcaddy-caddy list-modules | grep -E '(^|\.)anvil'
