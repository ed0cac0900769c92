package anvil

import (
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-anvil/anvil/internal/deliver"
	"github.com/caddy-anvil/anvil/internal/event"
	"github.com/caddy-anvil/anvil/internal/store"
	"github.com/caddy-anvil/anvil/internal/worker"
)

// settings is what the workers need of this configuration.
func (a *App) settings() (worker.Settings, error) {
	s := worker.Settings{
		Workers:      a.workersOn(),
		DrainTimeout: orDefault(a.DrainTimeout, defaultDrainTimeout),
		OrphanAfter:  orDefault(a.OrphanAfter, defaultOrphanAfter),
		Endpoints:    map[string]worker.Endpoint{},
		Retention:    store.Retention{Default: defaultRetention, Queues: map[string]store.StateRetention{}},
	}
	for name, q := range a.Queues {
		keep := defaultRetention
		for state, d := range q.Retain {
			if st, ok := event.ParseState(state); ok {
				keep[st] = time.Duration(d)
			}
		}
		s.Retention.Queues[name] = keep
	}
	for _, src := range a.sources {
		q := a.Queues[src.cfg.queue()]
		for i := range src.cfg.Endpoints {
			ep, err := endpoint(src, &src.cfg.Endpoints[i], &q)
			if err != nil {
				return s, err
			}
			s.Endpoints[ep.Identity] = ep
		}
	}
	return s, nil
}

func (a *App) workersOn() bool { return a.Workers == nil || *a.Workers }

// endpoint joins an endpoint's own words with its queue's.
func endpoint(src *source, c *EndpointConfig, q *QueueConfig) (worker.Endpoint, error) {
	url, err := deliver.ParseUpstream(c.Upstream)
	if err != nil {
		return worker.Endpoint{}, err
	}
	ep := worker.Endpoint{
		Identity: src.cfg.Source + "/" + c.name(), Queue: src.cfg.queue(), URL: url,
		Timeout:     orDefault(q.Timeout, deliver.DefaultTimeout),
		Concurrency: defaultConcurrency,
		Retry:       worker.DefaultRetry(),
	}
	ep.Timeout = orDefault(c.Timeout, ep.Timeout)
	for _, n := range []int{q.Concurrency, c.Concurrency} {
		if n != 0 {
			ep.Concurrency = n
		}
	}
	for _, r := range []*RetryConfig{q.Retry, c.Retry} {
		if r != nil {
			ep.Retry = r.policy()
		}
	}
	return ep, nil
}

func (r *RetryConfig) policy() worker.RetryPolicy {
	switch r.Schedule {
	case scheduleOff, schedulePatient:
		p, _ := worker.NamedRetry(r.Schedule)
		return p
	case scheduleExponential:
		x := worker.DefaultExponential()
		x.Base = orDefault(r.Base, x.Base)
		x.Cap = orDefault(r.Cap, x.Cap)
		if r.Attempts != 0 {
			x.Attempts = r.Attempts
		}
		if r.Jitter != nil {
			x.Jitter = *r.Jitter
		}
		return worker.RetryPolicy{Exponential: &x}
	default:
		p := worker.RetryPolicy{}
		for _, d := range r.Delays {
			p.Delays = append(p.Delays, time.Duration(d))
		}
		return p
	}
}

func orDefault(d caddy.Duration, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return time.Duration(d)
}
