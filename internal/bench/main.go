// Command bench measures anvil beside plain Caddy, in one run and on one machine: what a signed webhook costs on its way
// in, how long it takes to the upstream, how fast a backlog drains, and how each changes when the store remembers a
// million keys; on SQLite and on a Redis of its own. It prints Markdown tables.
//
// The load generator, the upstream and Redis run on the same cores as the server, so absolute figures are those of the
// machine; the ratio to Caddy's own `respond` is what carries over.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// plan is how much is measured.
type plan struct {
	requests int           // of each accept figure
	backlog  int           // jobs of each drain figure
	rate     time.Duration // length of the end-to-end figure
	keys     int           // remembered keys of the second half
}

func main() {
	log.SetFlags(0)
	quick := flag.Bool("quick", false, "a tenth of everything, for a look rather than a figure")
	binary := flag.String("caddy", "", "measure this binary instead of building ./cmd/caddy")
	which := flag.String("store", "all", "measure only this kind of store: sqlite, redis or all")
	dir := flag.String("dir", "", "folder for the stores; its disk is what is measured (default: a temporary one)")
	profiles := flag.String("profile", "", "write CPU profiles of Caddy into this folder, for each kind of store while it is empty: accepting over 64 connections with workers off, and draining at concurrency 64")
	flag.Parse()

	p := plan{requests: 80_000, backlog: 20_000, rate: 15 * time.Second, keys: 1_000_000}
	if *quick {
		p = plan{requests: 8_000, backlog: 2_000, rate: 3 * time.Second, keys: 100_000}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, p, *which, *binary, *dir, *profiles)
	stop()
	if err != nil {
		log.Fatalf("bench: %v", err)
	}
}

func run(ctx context.Context, p plan, which, binary, dir, profiles string) error {
	work, err := os.MkdirTemp(dir, "anvil-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	kinds, missing, err := storages(which, work)
	if err != nil {
		return err
	}
	if missing != "" {
		log.Print(missing)
	}
	if profiles != "" {
		if err := os.MkdirAll(profiles, 0o700); err != nil {
			return err
		}
	}
	if binary == "" {
		binary = filepath.Join(work, "caddy")
		build := exec.CommandContext(ctx, "go", "build", "-o", binary, "github.com/caddy-anvil/anvil/cmd/caddy")
		if text, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("building ./cmd/caddy: %w\n%s", err, text)
		}
	}
	b := &bench{plan: p, binary: binary, work: work, profiles: profiles, report: newReport(binary, work)}
	start := time.Now()
	if err := b.all(ctx, kinds); err != nil {
		return err
	}
	if missing != "" {
		b.report.about = append(b.report.about, missing)
	}
	b.report.print(os.Stdout)
	fmt.Printf("\nThe run took %s.\n", time.Since(start).Round(time.Second))
	return nil
}
