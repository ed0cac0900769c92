package anvil

import (
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
)

// parseGlobalOption reads the global option:
//
//	anvil {
//		store         <module> ...
//		queue <name> {
//			concurrency <n>
//			retry       <delay>...|patient|off
//			retry       exponential {
//				base     <duration>
//				cap      <duration>
//				attempts <n>
//				jitter   <share>
//			}
//			timeout     <duration>
//			max_pending <n>
//			retain      <state> <duration>
//		}
//		source <name> {
//			...
//		}
//		workers       on|off
//		drain_timeout <duration>
//		orphan_after  <duration>
//	}
//
// The words queue, source and retain may repeat. The block of a source is that of the directive.
func parseGlobalOption(d *caddyfile.Dispenser, existing any) (any, error) {
	d.Next()
	if existing != nil {
		return nil, d.Err("the global option anvil is already specified; put everything into one block")
	}
	if d.NextArg() {
		return nil, d.Errf("unexpected argument '%s', the form is: anvil { ... }", d.Val())
	}
	var cfg AppConfig
	if err := cfg.unmarshalBlock(d); err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: "anvil", Value: caddyconfig.JSON(cfg, nil)}, nil
}

func (c *AppConfig) unmarshalBlock(d *caddyfile.Dispenser) error {
	return parseBlock(d, map[string]word{
		"store":         {form: "store <module>", parse: c.parseStore},
		"queue":         {form: "queue <name> { ... }", parse: c.parseQueue, repeat: true},
		"source":        {form: "source <name> { ... }", parse: c.parseSource, repeat: true},
		"workers":       {form: "workers on|off", parse: c.parseWorkers},
		"drain_timeout": {form: "drain_timeout <duration>", parse: duration(&c.DrainTimeout, 0)},
		"orphan_after":  {form: "orphan_after <duration>", parse: duration(&c.OrphanAfter, 0)},
	})
}

func (c *AppConfig) parseStore(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return errArgs
	}
	name := d.Val()
	known := make([]string, 0, 1)
	for _, m := range caddy.GetModules("anvil.stores") {
		known = append(known, m.ID.Name())
	}
	if strings.Contains(name, "://") { // not quoted: it may have a password
		return d.Err("the store's kind comes before its address: store redis <url>")
	}
	if !slices.Contains(known, name) {
		return d.Errf("'%s' is not a store%s", name, suggest(name, known))
	}
	module, err := caddyfile.UnmarshalModule(d, "anvil.stores."+name)
	if err != nil {
		return err
	}
	c.StoreRaw = caddyconfig.JSONModuleObject(module, "module", name, nil)
	return nil
}

func (c *AppConfig) parseQueue(d *caddyfile.Dispenser) error {
	name, err := oneArg(d)
	if err != nil {
		return err
	}
	if err := checkName("queue", name); err != nil {
		return d.WrapErr(err)
	}
	if _, ok := c.Queues[name]; ok {
		return d.Errf("queue '%s' already specified", name)
	}
	var q QueueConfig
	err = parseBlock(d, map[string]word{
		"concurrency": {form: "concurrency <n>", parse: count(&q.Concurrency, mostConcurrency)},
		"retry":       {form: retryForm, parse: parseRetry(&q.Retry)},
		"timeout":     {form: "timeout <duration>", parse: duration(&q.Timeout, longestTimeout)},
		"max_pending": {form: "max_pending <n>", parse: count(&q.MaxPending, 0)},
		"retain":      {form: "retain <state> <duration>", parse: q.parseRetain, repeat: true},
	})
	if err != nil {
		return err
	}
	if c.Queues == nil {
		c.Queues = make(map[string]QueueConfig)
	}
	c.Queues[name] = q
	return nil
}

func (q *QueueConfig) parseRetain(d *caddyfile.Dispenser) error {
	var state, arg string
	if !d.AllArgs(&state, &arg) {
		return errArgs
	}
	v, err := parseDuration(d, "retain", arg, 0)
	if err != nil {
		return err
	}
	if err := checkRetain(state, v); err != nil {
		return d.WrapErr(err)
	}
	if _, ok := q.Retain[state]; ok {
		return d.Errf("retain %s already specified", state)
	}
	if q.Retain == nil {
		q.Retain = make(map[string]caddy.Duration)
	}
	q.Retain[state] = v
	return nil
}

func (c *AppConfig) parseSource(d *caddyfile.Dispenser) error {
	name, err := oneArg(d)
	if err != nil {
		return err
	}
	if err := checkName("source", name); err != nil {
		return d.WrapErr(err)
	}
	for i := range c.Sources {
		if c.Sources[i].Source == name {
			return d.Errf("source '%s' already specified", name)
		}
	}
	if !opensBlock(d) {
		return d.Errf("source '%s' needs a block here; to use it elsewhere, write: anvil [<matcher>] %s", name, name)
	}
	cfg := SourceConfig{Source: name}
	if err := cfg.unmarshalBlock(d); err != nil {
		return err
	}
	c.Sources = append(c.Sources, cfg)
	return nil
}

func (c *AppConfig) parseWorkers(d *caddyfile.Dispenser) error {
	arg, err := oneArg(d)
	if err != nil {
		return err
	}
	on := arg == "on"
	if !on && arg != "off" {
		return d.Errf("workers must be on or off, not '%s'", arg)
	}
	c.Workers = &on
	return nil
}

const retryForm = "retry <delay>...|patient|off|exponential { ... }"

// parseRetry makes the parse of the word retry: one of the named schedules, else a list of delays.
func parseRetry(to **RetryConfig) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		line := *d
		args := d.RemainingArgs()
		if len(args) == 0 {
			return errArgs
		}
		r := &RetryConfig{}
		switch args[0] {
		case schedulePatient, scheduleOff, scheduleExponential:
			if len(args) > 1 {
				return d.Errf("retry %s takes no further arguments", args[0])
			}
			r.Schedule = args[0]
		default:
			r.Schedule = scheduleFixed
			for _, arg := range args {
				delay, err := caddy.ParseDuration(arg)
				if err != nil {
					return d.Errf("retry: '%s' is neither a duration such as 30s nor one of patient, off, exponential%s", arg, meant(arg, schedules))
				}
				r.Delays = append(r.Delays, caddy.Duration(delay))
			}
		}
		if r.Schedule == scheduleExponential {
			if err := r.parseBackoff(d); err != nil {
				return err
			}
		}
		if err := r.validate(); err != nil {
			return line.WrapErr(err)
		}
		*to = r
		return nil
	}
}

func (r *RetryConfig) parseBackoff(d *caddyfile.Dispenser) error {
	return parseBlock(d, map[string]word{
		"base":     {form: "base <duration>", parse: duration(&r.Base, longestDelay)},
		"cap":      {form: "cap <duration>", parse: duration(&r.Cap, longestDelay)},
		"attempts": {form: "attempts <n>", parse: count(&r.Attempts, mostAttempts)},
		"jitter":   {form: "jitter <share>", parse: r.parseJitter},
	})
}

func (r *RetryConfig) parseJitter(d *caddyfile.Dispenser) error {
	arg, err := oneArg(d)
	if err != nil {
		return err
	}
	share, err := strconv.ParseFloat(arg, 64)
	if err != nil {
		return d.Errf("jitter: '%s' is not a number from 0 to 1", arg)
	}
	if err := checkJitter(share); err != nil {
		return d.WrapErr(err)
	}
	r.Jitter = &share
	return nil
}
