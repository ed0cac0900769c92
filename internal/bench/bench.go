package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// bench runs the figures one after the other, each on a fresh Caddy.
type bench struct {
	plan
	binary, work, profile string
	adminAddr, siteAddr   string
	up                    *upstream
	filled                string // store with remembered keys, once there is one
	stores                int    // made so far
	report                *report
	next                  int // number of the next webhook; none is used twice in a store
}

func (b *bench) all(ctx context.Context) error {
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
		f, err := b.accept(ctx, b.respondSite(), conns, "")
		if err != nil {
			return fmt.Errorf("respond at %d connections: %w", conns, err)
		}
		b.report.ceiling[conns] = f.perSecond
		b.report.accepts = append(b.report.accepts, f.named("Caddy `respond 202`", conns))
	}
	if err := b.anvil(ctx, "empty store"); err != nil {
		return err
	}
	log.Printf("filling a store with %d keys", b.keys)
	b.filled = filepath.Join(b.work, "filled.db")
	if err := fillKeys(ctx, b.filled, b.keys); err != nil {
		return fmt.Errorf("filling a store: %w", err)
	}
	return b.anvil(ctx, thousands(b.keys)+" keys")
}

// store makes the store of one figure: empty, or a copy of the filled one, so that no figure inherits another's backlog.
func (b *bench) store() (string, error) {
	b.stores++
	dir := filepath.Join(b.work, fmt.Sprintf("store-%d", b.stores))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if b.stores > 1 {
		if err := os.RemoveAll(filepath.Join(b.work, fmt.Sprintf("store-%d", b.stores-1))); err != nil {
			return "", err
		}
	}
	path := filepath.Join(dir, "anvil.db")
	if b.filled == "" {
		return path, nil
	}
	return path, copyFile(b.filled, path)
}

// anvil takes all figures of a kind of store.
func (b *bench) anvil(ctx context.Context, label string) error {
	for _, workers := range []string{"off", "on"} {
		for _, conns := range []int{64, 256} {
			profile := ""
			if workers == "off" && conns == 64 && b.profile != "" {
				profile, b.profile = b.profile, ""
			}
			store, err := b.store()
			if err != nil {
				return err
			}
			f, err := b.accept(ctx, b.anvilSite(store, workers, 8), conns, profile)
			if err != nil {
				return fmt.Errorf("anvil, workers %s, %d connections: %w", workers, conns, err)
			}
			b.report.accepts = append(b.report.accepts, f.named(fmt.Sprintf("anvil, workers %s, %s", workers, label), conns))
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

// take numbers n new webhooks.
func (b *bench) take(n int) (first int) {
	first = b.next
	b.next += n
	return first
}

// accept measures how fast webhooks are acknowledged.
func (b *bench) accept(ctx context.Context, caddyfile string, conns int, profile string) (acceptFigure, error) {
	log.Printf("accepting over %d connections", conns)
	s, err := b.start(ctx, caddyfile)
	if err != nil {
		return acceptFigure{}, err
	}
	defer s.stop()
	// The first requests of a process pay for caches, connections and file growth.
	warm := b.requests / 10
	if _, err := fire(ctx, s.addr, requests(s.addr, b.take(warm), warm), conns); err != nil {
		return acceptFigure{}, err
	}
	reqs := requests(s.addr, b.take(b.requests), b.requests)
	if profile != "" {
		written := make(chan error, 1)
		go func() { written <- s.cpuProfile(profile, 5) }()
		defer func() {
			if err := <-written; err != nil {
				log.Printf("writing the profile: %v", err)
			}
		}()
	}
	cpu, err := s.cpu()
	if err != nil {
		return acceptFigure{}, err
	}
	mallocs, err := s.allocations()
	if err != nil {
		return acceptFigure{}, err
	}
	v, err := fire(ctx, s.addr, reqs, conns)
	if err != nil {
		return acceptFigure{}, err
	}
	cpuAfter, err := s.cpu()
	if err != nil {
		return acceptFigure{}, err
	}
	mallocsAfter, err := s.allocations()
	if err != nil {
		return acceptFigure{}, err
	}
	n := len(reqs)
	return acceptFigure{
		perSecond: v.perSecond(), p50: v.percentile(0.5), p99: v.percentile(0.99),
		cpu: (cpuAfter - cpu) / time.Duration(n), allocs: (mallocsAfter - mallocs) / float64(n),
	}, nil
}

// endToEnd measures the time from the begin of a request to its arrival at the upstream, at 200 events a second.
func (b *bench) endToEnd(ctx context.Context, label string) error {
	store, err := b.store()
	if err != nil {
		return err
	}
	const perSecond = 200
	log.Printf("end to end at %d events/s", perSecond)
	s, err := b.start(ctx, b.anvilSite(store, "on", 8))
	if err != nil {
		return err
	}
	defer s.stop()
	warm := perSecond
	first := b.take(warm)
	if _, err := pace(ctx, s.addr, requests(s.addr, first, warm), first, perSecond); err != nil {
		return err
	}
	n := int(b.rate.Seconds() * perSecond)
	first = b.take(n)
	began, err := pace(ctx, s.addr, requests(s.addr, first, n), first, perSecond)
	if err != nil {
		return err
	}
	if err := s.waitEmpty(ctx); err != nil {
		return err
	}
	arrived := b.up.arrivals()
	times := make([]time.Duration, 0, n)
	for k, at := range began {
		there, ok := arrived[k]
		if !ok {
			return fmt.Errorf("webhook %d was acknowledged and did not arrive", k)
		}
		times = append(times, there.Sub(at))
	}
	slices.Sort(times)
	b.report.endToEnd = append(b.report.endToEnd, latencyFigure{label, percentile(times, 0.5), percentile(times, 0.99)})
	return nil
}

// drain measures how fast a backlog is delivered to an upstream that answers at once.
func (b *bench) drain(ctx context.Context, label string, concurrency int) error {
	store, err := b.store()
	if err != nil {
		return err
	}
	log.Printf("draining %d jobs at concurrency %d", b.backlog, concurrency)
	s, err := b.start(ctx, b.anvilSite(store, "off", concurrency))
	if err != nil {
		return err
	}
	defer s.stop()
	if _, err := fire(ctx, s.addr, requests(s.addr, b.take(b.backlog), b.backlog), 64); err != nil {
		return err
	}
	b.up.reset()
	if err := s.load(b.anvilSite(store, "on", concurrency)); err != nil {
		return err
	}
	if err := s.waitEmpty(ctx); err != nil {
		return err
	}
	if got := b.up.count(); got != b.backlog {
		return fmt.Errorf("%d of %d jobs arrived", got, b.backlog)
	}
	b.report.drains = append(b.report.drains, drainFigure{label, concurrency, float64(b.backlog) / b.up.span().Seconds()})
	return nil
}
