package main

import (
	"context"
	"fmt"
	"log"
	"path/filepath"
	"strings"
)

// bench runs the figures one after the other, each on a fresh Caddy.
type bench struct {
	plan
	binary, work, profiles string
	adminAddr, siteAddr    string
	up                     *upstream
	storage                storage // under measurement, nil for Caddy without the plugin
	report                 *report
	next                   int // number of the next webhook; none is used twice in a store
}

func (b *bench) all(ctx context.Context, kinds []storage) error {
	var err error
	if b.adminAddr, err = freeAddr(); err != nil {
		return err
	}
	if b.siteAddr, err = freeAddr(); err != nil {
		return err
	}
	if b.up, err = newUpstream(); err != nil {
		return err
	}
	defer b.up.close()

	for _, conns := range []int{64, 256} {
		log.Printf("respond: accepting over %d connections", conns)
		f, _, err := b.accept(ctx, b.respondSite(), conns, "")
		if err != nil {
			return fmt.Errorf("respond at %d connections: %w", conns, err)
		}
		b.report.ceiling[conns] = f.perSecond
		b.report.accepts = append(b.report.accepts, f.named("Caddy `respond 202`", conns))
	}
	for _, kind := range kinds {
		b.storage = kind
		err := b.kind(ctx)
		kind.close()
		if err != nil {
			return fmt.Errorf("%s: %w", kind.name(), err)
		}
	}
	return nil
}

const emptyStore = "empty store"

// kind takes all figures of one kind of store.
func (b *bench) kind(ctx context.Context) error {
	if err := b.anvil(ctx, emptyStore); err != nil {
		return err
	}
	if about := b.storage.about(); about != "" {
		b.report.about = append(b.report.about, about)
	}
	if err := b.memory(ctx); err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	log.Printf("%s: filling a store with %d keys", b.storage.name(), b.keys)
	if err := b.storage.fill(ctx, b.keys); err != nil {
		return fmt.Errorf("filling a store: %w", err)
	}
	return b.anvil(ctx, thousands(b.keys)+" keys")
}

// anvil takes the figures of empty or of filled stores.
func (b *bench) anvil(ctx context.Context, label string) error {
	for _, workers := range []string{"off", "on"} {
		for _, conns := range []int{64, 256} {
			if err := b.anvilAccept(ctx, label, workers, conns); err != nil {
				return fmt.Errorf("workers %s, %d connections: %w", workers, conns, err)
			}
		}
	}
	if err := b.endToEnd(ctx, label); err != nil {
		return fmt.Errorf("end to end: %w", err)
	}
	for _, concurrency := range []int{8, 64} {
		if err := b.drain(ctx, label, concurrency); err != nil {
			return fmt.Errorf("drain at concurrency %d: %w", concurrency, err)
		}
	}
	return nil
}

func (b *bench) anvilAccept(ctx context.Context, label, workers string, conns int) error {
	store, err := b.storage.next()
	if err != nil {
		return err
	}
	log.Printf("%s: accepting over %d connections, workers %s", b.storage.name(), conns, workers)
	simple := workers == "off" && conns == 64
	profile := ""
	if simple {
		profile = b.profile("accept", label)
	}
	f, used, err := b.accept(ctx, b.anvilSite(store, workers, 8), conns, profile)
	if err != nil {
		return err
	}
	b.report.accepts = append(b.report.accepts, f.named(fmt.Sprintf("%s, workers %s, %s", b.storage.name(), workers, label), conns))
	if simple && used.ok {
		b.report.usage = append(b.report.usage, used.of("accepted event, "+label, b.requests, false))
	}
	return nil
}

// profile is the file for the profile of a figure, empty when none is wanted.
func (b *bench) profile(of, label string) string {
	if b.profiles == "" || label != emptyStore {
		return ""
	}
	return filepath.Join(b.profiles, fmt.Sprintf("%s-%s.pprof", of, strings.ToLower(b.storage.name())))
}

// take numbers n new webhooks.
func (b *bench) take(n int) (first int) {
	first = b.next
	b.next += n
	return first
}
