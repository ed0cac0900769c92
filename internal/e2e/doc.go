// Package e2e drives the real binary as a user would: a Caddyfile, real sockets, a scripted upstream that records the raw
// requests, signals and kill -9. Nothing here looks inside the process; what the tests know, they know from answers, the
// admin API, the log and the upstream.
//
// The binary is built once a run. ANVIL_E2E_RACE=1 builds it with the race detector, ANVIL_E2E_BINARY uses a given one, and
// -short leaves these tests out. What tries the providers' own SDKs needs node and npm, and is skipped without them.
package e2e
