package main

import "time"

// usage counts what the server of a store has used since it was started.
type usage struct {
	calls   map[string]int64 // of each command, by clients and scripts alike
	scripts time.Duration    // inside scripts
	cpu     time.Duration
	memory  int64 // bytes at present
}

// spell is what was used by its begin and by its end. ok is false when there is no server.
type spell struct {
	before, after usage
	ok            bool
}

func (b *bench) during(f func() error) (s spell, err error) {
	if b.storage == nil {
		return s, f()
	}
	if s.before, s.ok, err = b.storage.usage(); err != nil {
		return s, err
	}
	if err := f(); err != nil {
		return s, err
	}
	s.after, s.ok, err = b.storage.usage()
	return s, err
}

// usageFigure is what one event or job costs the server.
type usageFigure struct {
	name         string
	sent, called float64 // commands
	scripts, cpu float64 // microseconds: within scripts, and of the process
}

// sentByUs are the commands that Caddy sends and no script calls.
var sentByUs = []string{"evalsha", "eval", "info", "ping", "subscribe", "wait"}

// of spreads what was used over n events or jobs. commandstats does not tell clients from scripts, but their commands
// differ, except that Caddy fetches the payloads of claimed jobs by get: fetched says that it did, while no script that
// looks for dedupe keys ran.
func (s spell) of(name string, n int, fetched bool) usageFigure {
	ours := map[string]bool{"get": fetched}
	for _, c := range sentByUs {
		ours[c] = true
	}
	var sent, called int64
	for c, calls := range s.after.calls {
		if d := calls - s.before.calls[c]; ours[c] {
			sent += d
		} else {
			called += d
		}
	}
	each := func(total int64) float64 { return float64(total) / float64(n) }
	return usageFigure{
		name: name, sent: each(sent), called: each(called),
		scripts: each((s.after.scripts - s.before.scripts).Microseconds()), cpu: each((s.after.cpu - s.before.cpu).Microseconds()),
	}
}
