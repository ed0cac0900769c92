package main

import (
	"context"
	"fmt"
	"log"
	"slices"
	"time"
)

// accept measures how fast webhooks are acknowledged.
func (b *bench) accept(ctx context.Context, caddyfile string, conns int, profile string) (f acceptFigure, used spell, err error) {
	s, err := b.start(ctx, caddyfile)
	if err != nil {
		return f, used, err
	}
	defer s.stop()
	// The first requests of a process pay for caches, connections and file growth.
	warm := b.requests / 10
	if _, err := fire(ctx, s.addr, requests(s.addr, b.take(warm), warm), conns); err != nil {
		return f, used, err
	}
	reqs := requests(s.addr, b.take(b.requests), b.requests)
	defer s.profiled(profile)()
	before, err := s.work()
	if err != nil {
		return f, used, err
	}
	var v volley
	used, err = b.during(func() error {
		v, err = fire(ctx, s.addr, reqs, conns)
		return err
	})
	if err != nil {
		return f, used, err
	}
	after, err := s.work()
	if err != nil {
		return f, used, err
	}
	n := len(reqs)
	return acceptFigure{
		perSecond: v.perSecond(), p50: v.percentile(0.5), p99: v.percentile(0.99),
		cpu: (after.cpu - before.cpu) / time.Duration(n), allocs: (after.mallocs - before.mallocs) / float64(n),
	}, used, nil
}

// endToEnd measures the time from the begin of a request to its arrival at the upstream, at 200 events a second.
func (b *bench) endToEnd(ctx context.Context, label string) error {
	store, err := b.storage.next()
	if err != nil {
		return err
	}
	const perSecond = 200
	log.Printf("%s: end to end at %d events/s", b.storage.name(), perSecond)
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
	b.report.endToEnd = append(b.report.endToEnd, latencyFigure{b.storage.name() + ", " + label, percentile(times, 0.5), percentile(times, 0.99)})
	return nil
}

// drain measures how fast a backlog is delivered to an upstream that answers at once.
func (b *bench) drain(ctx context.Context, label string, concurrency int) error {
	store, err := b.storage.next()
	if err != nil {
		return err
	}
	log.Printf("%s: draining %d jobs at concurrency %d", b.storage.name(), b.backlog, concurrency)
	s, err := b.start(ctx, b.anvilSite(store, "off", concurrency))
	if err != nil {
		return err
	}
	defer s.stop()
	if _, err := fire(ctx, s.addr, requests(s.addr, b.take(b.backlog), b.backlog), 64); err != nil {
		return err
	}
	b.up.reset()
	profile := ""
	if concurrency == 64 {
		profile = b.profile("drain", label)
	}
	defer s.profiled(profile)()
	used, err := b.during(func() error {
		if err := s.load(b.anvilSite(store, "on", concurrency)); err != nil {
			return err
		}
		return s.waitEmpty(ctx)
	})
	if err != nil {
		return err
	}
	if got := b.up.count(); got != b.backlog {
		return fmt.Errorf("%d of %d jobs arrived", got, b.backlog)
	}
	b.report.drains = append(b.report.drains, drainFigure{b.storage.name() + ", " + label, concurrency, float64(b.backlog) / b.up.span().Seconds()})
	if concurrency == 64 && used.ok {
		b.report.usage = append(b.report.usage, used.of("delivered job, "+label, b.backlog, true))
	}
	return nil
}

// memory measures what a pending job takes in the memory of the store's server, dedupe key and counters included.
func (b *bench) memory(ctx context.Context) error {
	store, err := b.storage.next()
	if err != nil {
		return err
	}
	before, ok, err := b.storage.usage()
	if err != nil || !ok {
		return err
	}
	const jobs = 20_000 // also in a quick run: with fewer, what a server needs anyhow would show
	log.Printf("%s: storing %d jobs for the memory that they take", b.storage.name(), jobs)
	s, err := b.start(ctx, b.anvilSite(store, "off", 8))
	if err != nil {
		return err
	}
	_, err = fire(ctx, s.addr, requestsWith(s.addr, webhookHeaders, b.take(jobs), jobs), 64)
	// Connections have buffers in the server, which are no jobs' memory.
	if stopped := s.stop(); err == nil {
		err = stopped
	}
	if err != nil {
		return err
	}
	after, _, err := b.storage.usage()
	if err != nil {
		return err
	}
	b.report.memory = append(b.report.memory, fmt.Sprintf("A pending job of a 1 KiB webhook with GitHub's headers takes %s bytes of Redis' memory (used_memory over %s jobs).",
		thousands(int((after.memory-before.memory)/jobs)), thousands(jobs)))
	return nil
}
