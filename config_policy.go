package anvil

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-anvil/anvil/internal/deliver"
	"github.com/caddy-anvil/anvil/internal/event"
)

const (
	longestTimeout  = time.Hour
	longestDelay    = 30 * 24 * time.Hour
	mostDelays      = 100
	mostAttempts    = 100
	mostConcurrency = 10_000

	scheduleFixed       = "fixed"
	schedulePatient     = "patient"
	scheduleOff         = "off"
	scheduleExponential = "exponential"

	defaultBackoffBase = caddy.Duration(time.Second)
	defaultBackoffCap  = caddy.Duration(time.Hour)
)

var schedules = []string{scheduleFixed, schedulePatient, scheduleOff, scheduleExponential}

// validate leaves StoreRaw to the store's own module.
func (c *AppConfig) validate() error {
	err := checkSet(
		bound{"drain_timeout", int64(c.DrainTimeout), 0, timeUnit},
		bound{"orphan_after", int64(c.OrphanAfter), 0, timeUnit},
	)
	if err != nil {
		return err
	}
	for name, q := range c.Queues {
		if err := checkName("queue", name); err != nil {
			return err
		}
		if err := q.validate(); err != nil {
			return fmt.Errorf("queue '%s': %w", name, err)
		}
	}
	seen := make(map[string]bool, len(c.Sources))
	for i := range c.Sources {
		s := &c.Sources[i]
		if err := s.validate(); err != nil {
			return err
		}
		if s.isReference() {
			return fmt.Errorf("source '%s' has no settings", s.Source)
		}
		if seen[s.Source] {
			return fmt.Errorf("source '%s' already specified", s.Source)
		}
		seen[s.Source] = true
	}
	return nil
}

func (q *QueueConfig) validate() error {
	err := checkSet(
		bound{"concurrency", int64(q.Concurrency), mostConcurrency, countUnit},
		bound{"timeout", int64(q.Timeout), int64(longestTimeout), timeUnit},
		bound{"max_pending", int64(q.MaxPending), 0, countUnit},
	)
	if err != nil {
		return err
	}
	for state, d := range q.Retain {
		if err := checkRetain(state, d); err != nil {
			return err
		}
	}
	return q.Retry.validate()
}

func checkRetain(state string, d caddy.Duration) error {
	if s, ok := event.ParseState(state); !ok || !s.Final() {
		var final []string
		for _, s := range event.States() {
			if s.Final() {
				final = append(final, s.String())
			}
		}
		return fmt.Errorf("'%s' is not a state in which jobs end%s", state, suggest(state, final))
	}
	return bound{"retain " + state, int64(d), 0, timeUnit}.check()
}

func (e *EndpointConfig) name() string {
	if e.Name == "" {
		return defaultEndpoint
	}
	return e.Name
}

func (e *EndpointConfig) validate() error {
	if err := checkName("endpoint", e.name()); err != nil {
		return err
	}
	if err := e.validateSettings(); err != nil {
		return fmt.Errorf("endpoint '%s': %w", e.name(), err)
	}
	return nil
}

func (e *EndpointConfig) validateSettings() error {
	switch {
	case e.Upstream == "":
		return errors.New("the upstream is missing")
	case strings.Contains(e.Upstream, "{"):
		return errors.New("the upstream holds a placeholder, which is not replaced here; in a Caddyfile write {$NAME} instead")
	}
	if _, err := deliver.ParseUpstream(e.Upstream); err != nil {
		return err
	}
	err := checkSet(
		bound{"timeout", int64(e.Timeout), int64(longestTimeout), timeUnit},
		bound{"concurrency", int64(e.Concurrency), mostConcurrency, countUnit},
	)
	if err != nil {
		return err
	}
	return e.Retry.validate()
}

func checkEndpointNames(all []EndpointConfig) error {
	seen := make(map[string]bool, len(all))
	for i := range all {
		if name := all[i].name(); seen[name] {
			return fmt.Errorf("endpoint '%s' already specified; name each one: deliver <upstream> <endpoint>", name)
		}
		seen[all[i].name()] = true
	}
	return nil
}

// validate accepts nil: no retry setting.
func (r *RetryConfig) validate() error {
	if r == nil {
		return nil
	}
	backoff := r.Base != 0 || r.Cap != 0 || r.Attempts != 0 || r.Jitter != nil
	switch {
	case r.Schedule != "" && !slices.Contains(schedules, r.Schedule):
		return fmt.Errorf("unrecognized retry schedule '%s'%s", r.Schedule, suggest(r.Schedule, schedules))
	case r.Schedule != scheduleExponential && backoff:
		return errors.New("retry: base, cap, attempts and jitter belong to exponential")
	case r.Schedule == "" || r.Schedule == scheduleFixed:
		return r.validateDelays()
	case len(r.Delays) > 0:
		return fmt.Errorf("retry %s takes no delays", r.Schedule)
	}
	return r.validateBackoff()
}

func (r *RetryConfig) validateDelays() error {
	switch n := len(r.Delays); {
	case n == 0:
		return errors.New("retry needs delays, or a named schedule: patient, off or exponential")
	case n > mostDelays:
		return fmt.Errorf("retry takes at most %d delays, not %d", mostDelays, n)
	}
	for _, d := range r.Delays {
		if err := (bound{"retry delay", int64(d), int64(longestDelay), timeUnit}).check(); err != nil {
			return err
		}
	}
	return nil
}

func (r *RetryConfig) validateBackoff() error {
	err := checkSet(
		bound{"base", int64(r.Base), int64(longestDelay), timeUnit},
		bound{"cap", int64(r.Cap), int64(longestDelay), timeUnit},
		bound{"attempts", int64(r.Attempts), mostAttempts, countUnit},
	)
	if err != nil {
		return err
	}
	base, limit := r.Base, r.Cap
	if base == 0 {
		base = defaultBackoffBase
	}
	if limit == 0 {
		limit = defaultBackoffCap
	}
	if limit < base {
		return fmt.Errorf("cap %s is below base %s", time.Duration(limit), time.Duration(base))
	}
	if r.Jitter == nil {
		return nil
	}
	return checkJitter(*r.Jitter)
}

func checkJitter(share float64) error {
	if math.IsNaN(share) || share < 0 || share > 1 {
		return fmt.Errorf("jitter must be from 0 to 1, not %v", share)
	}
	return nil
}
