package anvil

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// parseDirective reads the directive:
//
//	anvil [<matcher>] <source> {
//		verify <provider> [<secret>...] {
//			<option>    <value>...
//			report_only
//		}
//		verify none
//		public_url    <url>
//		dedupe [event_id|signature|body|header <name>...|json <pointer>...|form <field>...|off] {
//			ttl <duration>
//		}
//		tenant        <placeholder>
//		queue         <name>
//		deliver       <upstream> [<endpoint>] {
//			timeout     <duration>
//			retry       <delay>...|patient|off
//			retry       exponential {
//				base     <duration>
//				cap      <duration>
//				attempts <n>
//				jitter   <share>
//			}
//			concurrency <n>
//		}
//		max_body      <size>
//		max_in_flight <requests> [<size>]
//		read_timeout  <duration>
//		rate_limit    ip|source <n> <window>
//		respond       <status> [<body>]
//	}
//
// The words verify, deliver and rate_limit may repeat. Which options a verify takes is the provider's to say. Without a
// block the directive uses the source of that name in the global option.
func parseDirective(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	h.Next()
	if !h.NextArg() {
		return nil, h.Err("the source needs a name: anvil [<matcher>] <source> { ... }")
	}
	cfg := SourceConfig{Source: h.Val()}
	if strings.Contains(cfg.Source, "/") {
		return nil, h.Errf("'%s' is not a source name; did you mean the matcher '/%s'?", cfg.Source, strings.Trim(cfg.Source, "/"))
	}
	if err := checkName("source", cfg.Source); err != nil {
		return nil, h.WrapErr(err)
	}
	if h.NextArg() {
		if arg := h.Val(); strings.ContainsAny(arg[:min(1, len(arg))], "/*@") {
			return nil, h.Errf("the matcher comes before the source: anvil %s %s", arg, cfg.Source)
		}
		return nil, h.Errf("unexpected argument '%s', the form is: anvil [<matcher>] <source> { ... }", h.Val())
	}
	place := fmt.Sprintf("%s:%d", h.File(), h.Line())
	global := globalSource(h, cfg.Source)
	if !opensBlock(h.Dispenser) {
		if global == nil {
			return nil, h.Errf("source '%s' has no block here, and the global option anvil has no source of this name", cfg.Source)
		}
		return &Handler{SourceConfig: cfg}, nil
	}
	if err := cfg.unmarshalBlock(h.Dispenser); err != nil {
		return nil, err
	}
	if global != nil && !reflect.DeepEqual(*global, cfg) {
		return nil, fmt.Errorf("source '%s' at %s has other settings in the global option; leave out one of the two blocks", cfg.Source, place)
	}
	if first := rememberSource(h, place, cfg); !reflect.DeepEqual(first.cfg, cfg) {
		return nil, fmt.Errorf("source '%s' at %s has other settings at %s; make them equal, or use two names", cfg.Source, place, first.place)
	}
	return &Handler{SourceConfig: cfg}, nil
}

// globalSource returns the source of the global option, nil when it has none of this name.
func globalSource(h httpcaddyfile.Helper, name string) *SourceConfig {
	app, ok := h.Option("anvil").(httpcaddyfile.App)
	if !ok {
		return nil
	}
	var cfg AppConfig
	if err := json.Unmarshal(app.Value, &cfg); err != nil {
		return nil
	}
	for i := range cfg.Sources {
		if cfg.Sources[i].Source == name {
			return &cfg.Sources[i]
		}
	}
	return nil
}

// placedSource is a source with the place of its block.
type placedSource struct {
	place string
	cfg   SourceConfig
}

// rememberSource returns the first block of this name in the Caddyfile, which may be this one.
func rememberSource(h httpcaddyfile.Helper, place string, cfg SourceConfig) placedSource {
	const key = "anvil.sources"
	seen, ok := h.State[key].(map[string]placedSource)
	if !ok {
		seen = map[string]placedSource{}
		h.State[key] = seen
	}
	if _, ok := seen[cfg.Source]; !ok {
		seen[cfg.Source] = placedSource{place, cfg}
	}
	return seen[cfg.Source]
}

// parseHealthDirective reads the directive:
//
//	anvil_health [<matcher>] [ready|live]
func parseHealthDirective(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	h.Next()
	var cfg HealthConfig
	if h.NextArg() {
		cfg.Kind = h.Val()
		if err := cfg.validate(); err != nil {
			return nil, h.WrapErr(err)
		}
	}
	if err := endOfLine(h.Dispenser, "anvil_health [<matcher>] [ready|live]"); err != nil {
		return nil, err
	}
	return &Health{HealthConfig: cfg}, nil
}

// word is one line of a block, and the block it opens.
type word struct {
	form   string // shown when the arguments are wrong
	parse  func(d *caddyfile.Dispenser) error
	repeat bool
}

// errArgs is returned by a word's parse when its arguments are too few or too many; the reader is shown the form.
var errArgs = errors.New("wrong arguments")

// parseBlock reads the block that may follow on this line. What it does not know is an error: a word that is misspelt and
// skipped would leave a protection off.
func parseBlock(d *caddyfile.Dispenser, words map[string]word) error {
	seen := make(map[string]bool, len(words))
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		name := d.Val()
		w, ok := words[name]
		switch {
		case !ok:
			return d.Errf("unrecognized subdirective '%s'%s", name, suggest(name, slices.Collect(maps.Keys(words))))
		case seen[name] && !w.repeat:
			return d.Errf("%s already specified", name)
		}
		seen[name] = true
		if err := w.parse(d); errors.Is(err, errArgs) {
			return d.Errf("wrong number of arguments, the form is: %s", w.form)
		} else if err != nil {
			return err
		}
		if err := endOfLine(d, w.form); err != nil {
			return err
		}
	}
	return nil
}

// endOfLine refuses what is left on the line, a block included: it would otherwise be read as words of the block around.
func endOfLine(d *caddyfile.Dispenser, form string) error {
	if d.NextArg() {
		return d.Errf("unexpected argument '%s', the form is: %s", d.Val(), form)
	}
	if opensBlock(d) {
		return d.Errf("unexpected block, the form is: %s", form)
	}
	return nil
}

// opensBlock looks ahead for a brace on the same line, where NextBlock cannot tell an empty block from none.
func opensBlock(d *caddyfile.Dispenser) bool {
	ahead := *d
	return !ahead.NextArg() && !ahead.NextLine() && ahead.Next()
}

// oneArg reads exactly one argument.
func oneArg(d *caddyfile.Dispenser) (string, error) {
	var arg string
	if !d.AllArgs(&arg) {
		return "", errArgs
	}
	return arg, nil
}

// text makes the parse of a word that takes a text which may not be empty.
func text(to *string) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		name := d.Val()
		arg, err := oneArg(d)
		if err != nil {
			return err
		}
		if arg == "" {
			return d.Errf("%s is empty; is an environment variable unset?", name)
		}
		*to = arg
		return nil
	}
}

// duration makes the parse of a word that takes a positive duration.
func duration(to *caddy.Duration, limit time.Duration) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		name := d.Val()
		arg, err := oneArg(d)
		if err != nil {
			return err
		}
		*to, err = parseDuration(d, name, arg, limit)
		return err
	}
}

func parseDuration(d *caddyfile.Dispenser, name, arg string, limit time.Duration) (caddy.Duration, error) {
	v, err := caddy.ParseDuration(arg)
	if err != nil {
		return 0, d.Errf("%s: '%s' is not a duration such as 90s, 15m, 24h or 7d", name, arg)
	}
	if err := (bound{name, int64(v), int64(limit), timeUnit}).check(); err != nil {
		return 0, d.WrapErr(err)
	}
	return caddy.Duration(v), nil
}

// count makes the parse of a word that takes a positive whole number.
func count(to *int, limit int64) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		name := d.Val()
		arg, err := oneArg(d)
		if err != nil {
			return err
		}
		*to, err = parseCount(d, name, arg, limit)
		return err
	}
}

func parseCount(d *caddyfile.Dispenser, name, arg string, limit int64) (int, error) {
	n, err := strconv.Atoi(arg)
	if err != nil {
		return 0, d.Errf("%s: '%s' is not a whole number", name, arg)
	}
	if err := (bound{name, int64(n), limit, countUnit}).check(); err != nil {
		return 0, d.WrapErr(err)
	}
	return n, nil
}

func parseSize(d *caddyfile.Dispenser, name, arg string, limit int64) (int64, error) {
	n, err := humanize.ParseBytes(arg)
	if err != nil || n > math.MaxInt64 {
		return 0, d.Errf("%s: '%s' is not a size such as 256KiB or 25MB", name, arg)
	}
	size := int64(n)
	if err := (bound{name, size, limit, bytesUnit}).check(); err != nil {
		return 0, d.WrapErr(err)
	}
	return size, nil
}
