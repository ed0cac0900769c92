package anvil

import (
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
)

// unmarshalBlock reads the block of a source whose name has been read. The syntax stands at parseDirective.
func (c *SourceConfig) unmarshalBlock(d *caddyfile.Dispenser) error {
	start := *d // what concerns the source as a whole is reported where it begins
	err := parseBlock(d, map[string]word{
		"verify":        {form: "verify <provider> <secret>...", parse: c.parseVerify, repeat: true},
		"public_url":    {form: "public_url <url>", parse: c.parsePublicURL},
		"dedupe":        {form: "dedupe [event_id|signature|body|header <name>...|json <pointer>...|form <field>...|off]", parse: c.parseDedupe},
		"tenant":        {form: "tenant <placeholder>", parse: c.parseTenant},
		"queue":         {form: "queue <name>", parse: c.parseQueue},
		"deliver":       {form: "deliver <upstream> [<endpoint>]", parse: c.parseDeliver, repeat: true},
		"max_body":      {form: "max_body <size>", parse: c.parseMaxBody},
		"max_in_flight": {form: "max_in_flight <requests> [<size>]", parse: c.parseMaxInFlight},
		"read_timeout":  {form: "read_timeout <duration>", parse: duration(&c.ReadTimeout, longestTimeout)},
		"rate_limit":    {form: "rate_limit ip|source <n> <window>", parse: c.parseRateLimit, repeat: true},
		"respond":       {form: "respond <status> [<body>]", parse: c.parseRespond},
	})
	if err != nil {
		return err
	}
	if c.isReference() {
		return start.WrapErr(errVerifyMissing)
	}
	if err := c.validate(); err != nil {
		return start.WrapErr(err)
	}
	return nil
}

func (c *SourceConfig) parseDedupe(d *caddyfile.Dispenser) error {
	line := *d
	c.Dedupe = &DedupeConfig{}
	if d.NextArg() {
		c.Dedupe.Key, c.Dedupe.Fields = d.Val(), d.RemainingArgs()
	} else if !opensBlock(d) {
		return errArgs
	}
	err := parseBlock(d, map[string]word{
		"ttl": {form: "ttl <duration>", parse: duration(&c.Dedupe.TTL, 0)},
	})
	if err != nil {
		return err
	}
	if err := c.Dedupe.validate(); err != nil {
		return line.WrapErr(err)
	}
	return nil
}

func (c *SourceConfig) parsePublicURL(d *caddyfile.Dispenser) error {
	if err := text(&c.PublicURL)(d); err != nil {
		return err
	}
	if err := checkPublicURL(c.PublicURL); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

// parseTenant expands {host} and its like here, because Caddy does it in site blocks only and a source may stand in the
// global option.
func (c *SourceConfig) parseTenant(d *caddyfile.Dispenser) error {
	arg, err := oneArg(d)
	if err != nil {
		return err
	}
	if arg == "" {
		return d.Err("tenant is empty; write for example tenant {host}")
	}
	tokens := caddyfile.Segment{{Text: arg}}
	httpcaddyfile.NewShorthandReplacer().ApplyToSegment(&tokens)
	c.Tenant = tokens[0].Text
	if err := checkTenant(c.Tenant); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

func (c *SourceConfig) parseQueue(d *caddyfile.Dispenser) error {
	name, err := oneArg(d)
	if err != nil {
		return err
	}
	if err := checkName("queue", name); err != nil {
		return d.WrapErr(err)
	}
	c.Queue = name
	return nil
}

// parseDeliver takes an argument with a colon or slash for the upstream, any other for the endpoint's name. One with a
// placeholder was surely meant as the upstream.
func (c *SourceConfig) parseDeliver(d *caddyfile.Dispenser) error {
	line := *d
	var e EndpointConfig
	for d.NextArg() {
		arg := d.Val()
		upstream := strings.ContainsAny(arg, ":/{")
		switch {
		case upstream && e.Upstream != "":
			return d.Err("deliver takes one upstream; repeat it to send to several: deliver <upstream> <endpoint>")
		case upstream && e.Name != "":
			return d.Errf("the upstream comes before the endpoint's name: deliver %s %s", arg, e.Name)
		case upstream:
			e.Upstream = arg
		case e.Name != "":
			return errArgs
		default:
			e.Name = arg
		}
	}
	switch {
	case e.Upstream == "" && e.Name != "":
		return d.Errf("deliver needs an upstream, and '%s' is an endpoint's name as it has neither ':' nor '/'; did you mean http://%s?",
			e.Name, e.Name)
	case e.Upstream == "":
		return d.Err("deliver needs an upstream: deliver <upstream> [<endpoint>]")
	case e.Name == "":
		e.Name = defaultEndpoint
	}
	err := parseBlock(d, map[string]word{
		"timeout":     {form: "timeout <duration>", parse: duration(&e.Timeout, longestTimeout)},
		"retry":       {form: retryForm, parse: parseRetry(&e.Retry)},
		"concurrency": {form: "concurrency <n>", parse: count(&e.Concurrency, mostConcurrency)},
	})
	if err != nil {
		return err
	}
	if err := e.validate(); err != nil {
		return line.WrapErr(err)
	}
	c.Endpoints = append(c.Endpoints, e)
	if err := checkEndpointNames(c.Endpoints); err != nil {
		return line.WrapErr(err)
	}
	return nil
}

func (c *SourceConfig) parseMaxBody(d *caddyfile.Dispenser) error {
	arg, err := oneArg(d)
	if err != nil {
		return err
	}
	c.MaxBody, err = parseSize(d, "max_body", arg, largestBody)
	return err
}

func (c *SourceConfig) parseMaxInFlight(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return errArgs
	}
	var err error
	if c.MaxInFlight, err = parseCount(d, "max_in_flight", d.Val(), 0); err != nil {
		return err
	}
	if d.NextArg() {
		c.MaxInFlightBytes, err = parseSize(d, "max_in_flight bytes", d.Val(), 0)
	}
	return err
}

func (c *SourceConfig) parseRateLimit(d *caddyfile.Dispenser) error {
	var r RateLimitConfig
	var events, window string
	if !d.AllArgs(&r.Scope, &events, &window) {
		return errArgs
	}
	var err error
	if r.Events, err = parseCount(d, "rate_limit events", events, 0); err != nil {
		return err
	}
	if r.Window, err = parseDuration(d, "rate_limit window", window, 0); err != nil {
		return err
	}
	if err := r.validate(); err != nil {
		return d.WrapErr(err)
	}
	c.RateLimit = append(c.RateLimit, r)
	if err := checkRateScopes(c.RateLimit); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

func (c *SourceConfig) parseRespond(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return errArgs
	}
	status, err := strconv.Atoi(d.Val())
	if err != nil {
		return d.Errf("respond: '%s' is not an HTTP status; the form is: respond <status> [<body>]", d.Val())
	}
	if err := checkRespondStatus(status); err != nil {
		return d.WrapErr(err)
	}
	c.Respond = &RespondConfig{Status: status}
	if d.NextArg() {
		body := d.Val()
		c.Respond.Body = &body
	}
	if err := c.Respond.validate(); err != nil {
		return d.WrapErr(err)
	}
	return nil
}
