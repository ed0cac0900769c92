package anvil

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-anvil/anvil/internal/event"
)

// Every metric, with labels from the configuration only. They live as long as the process and are registered with the
// registry of each configuration, so that a reload keeps their values.
var (
	requestsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "caddy", Subsystem: "anvil", Name: "requests_total",
		Help: "Webhooks received, by outcome (accepted, duplicate, handshake, refused) and the reason of a refusal, or why one would have been refused without report_only.",
	}, []string{"source", "outcome", "reason"})
	secretUsedTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "caddy", Subsystem: "anvil", Name: "secret_used_total",
		Help: "Webhooks proved, by the number of the secret that matched, counted from 1 as configured.",
	}, []string{"source", "provider", "secret"})
	acceptSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: "caddy", Subsystem: "anvil", Name: "accept_duration_seconds",
		Help:    "Time from the first look at a webhook to its durable acceptance.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
	})
	attemptsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "caddy", Subsystem: "anvil", Name: "attempts_total",
		Help: "Delivery attempts, by the class of their outcome.",
	}, []string{"source", "endpoint", "outcome"})
	deadTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "caddy", Subsystem: "anvil", Name: "dead_total",
		Help: "Jobs that went dead.",
	}, []string{"source", "endpoint", "reason"})

	collectors = []prometheus.Collector{requestsTotal, secretUsedTotal, acceptSeconds, attemptsTotal, deadTotal, depthCollector{}}
)

// registerMetrics adds the collectors to a configuration's registry.
func registerMetrics(r prometheus.Registerer) error {
	for _, c := range collectors {
		var dup prometheus.AlreadyRegisteredError
		if err := r.Register(c); err != nil && !errors.As(err, &dup) {
			return err
		}
	}
	return nil
}

// workerMetrics counts for the workers.
type workerMetrics struct{}

func (workerMetrics) Attempt(source, endpoint string, class event.Class) {
	source, endpoint = configured(source, endpoint)
	attemptsTotal.WithLabelValues(source, endpoint, string(class)).Inc()
}

func (workerMetrics) Dead(source, endpoint string, reason event.Reason) {
	source, endpoint = configured(source, endpoint)
	deadTotal.WithLabelValues(source, endpoint, string(reason)).Inc()
}

// liveSeries counts the configurations that have a source or an endpoint, so that its series go when the last one does.
// Names of sources have no slash, identities of endpoints have one. Secrets of a source have series of their own.
var liveSeries = struct {
	sync.Mutex
	n map[string]int
}{n: map[string]int{}}

func holdSeries(names []string) {
	liveSeries.Lock()
	defer liveSeries.Unlock()
	for _, name := range names {
		liveSeries.n[name]++
	}
}

func releaseSeries(names []string) {
	liveSeries.Lock()
	defer liveSeries.Unlock()
	for _, name := range names {
		if liveSeries.n[name]--; liveSeries.n[name] > 0 {
			continue
		}
		delete(liveSeries.n, name)
		if secret, ok := parseSecretSeries(name); ok {
			secretUsedTotal.DeleteLabelValues(secret.source, secret.provider, secret.secret)
			continue
		}
		requestsTotal.DeletePartialMatch(prometheus.Labels{"source": name})
		forgetSecrets(name)
		attemptsTotal.DeletePartialMatch(prometheus.Labels{"endpoint": name})
		deadTotal.DeletePartialMatch(prometheus.Labels{"endpoint": name})
	}
}

// secretSeries are the labels of a secret's series. As a name it has blanks, unlike those of sources and endpoints.
type secretSeries struct{ source, provider, secret string }

func (s secretSeries) name() string { return s.source + " " + s.provider + " " + s.secret }

func parseSecretSeries(name string) (secretSeries, bool) {
	f := strings.Fields(name)
	if len(f) != 3 {
		return secretSeries{}, false
	}
	return secretSeries{f[0], f[1], f[2]}, true
}

// configured gives the labels for an endpoint. Jobs of those that no configuration has any more share one pair, so that
// what a store remembers does not become series.
func configured(source, endpoint string) (string, string) {
	liveSeries.Lock()
	defer liveSeries.Unlock()
	if liveSeries.n[endpoint] == 0 {
		return "unconfigured", "unconfigured"
	}
	return source, endpoint
}

var (
	jobsDesc = prometheus.NewDesc("caddy_anvil_jobs", "Jobs in the store, by queue and state.",
		[]string{"queue", "state"}, nil)
	oldestDesc = prometheus.NewDesc("caddy_anvil_oldest_pending_seconds",
		"Age of the oldest pending job of a queue, counted from its creation; 0 when there is none.", []string{"queue"}, nil)
	warningsDesc = prometheus.NewDesc("caddy_anvil_store_warnings",
		"Standing warnings about the stores, such as a Redis that keeps nothing on disk; /anvil/stats has their words.", nil, nil)
)

const scrapeTimeout = 5 * time.Second

// depthCollector asks the open stores at each scrape. They keep these counts anyway, so nothing is scanned.
type depthCollector struct{}

// Describe implements prometheus.Collector.
func (depthCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- jobsDesc
	ch <- oldestDesc
	ch <- warningsDesc
}

// Collect implements prometheus.Collector.
func (depthCollector) Collect(ch chan<- prometheus.Metric) {
	type depth struct {
		jobs   [7]int64
		oldest time.Duration
	}
	queues := map[string]*depth{}
	get := func(name string) *depth {
		d := queues[name]
		if d == nil {
			d = &depth{}
			queues[name] = d
		}
		return d
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	seen, warnings, silent := map[string]bool{}, 0, false
	for _, e := range openEngines() {
		// While a reload changes a shared store's connection, two engines are open on the same place.
		place := e.store.Describe()
		if seen[place] {
			continue
		}
		seen[place] = true
		stats, err := e.store.Stats(ctx)
		if err != nil {
			silent = true
			continue // no figure rather than a wrong one
		}
		warnings += len(stats.Warnings)
		for _, name := range e.configuredQueues() {
			get(name)
		}
		for i := range stats.Lanes {
			l := &stats.Lanes[i]
			if l.Jobs == [7]int64{} {
				continue // an endpoint of the past
			}
			d := get(l.Queue)
			for s, n := range l.Jobs {
				d.jobs[s] += n
			}
			d.oldest = max(d.oldest, l.OldestPending)
		}
	}
	if !silent {
		ch <- prometheus.MustNewConstMetric(warningsDesc, prometheus.GaugeValue, float64(warnings))
	}
	for name, d := range queues {
		for _, s := range event.States() {
			ch <- prometheus.MustNewConstMetric(jobsDesc, prometheus.GaugeValue, float64(d.jobs[s]), name, s.String())
		}
		ch <- prometheus.MustNewConstMetric(oldestDesc, prometheus.GaugeValue, d.oldest.Seconds(), name)
	}
}
