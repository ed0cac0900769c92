package worker

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-anvil/anvil/internal/event"
)

func TestFailuresAndDeathsAreLoggedWithTheirFactsAndWithoutSecrets(t *testing.T) {
	s := openStore(t)
	core, logs := observer.New(zapcore.DebugLevel)
	up := newUpstream(t, always(500))
	start(t, s, func(c *Config) { c.Log = zap.New(core) }).Attach(settings(endpoint("a", up.url+"/x?token=canary-url", func(ep *Endpoint) {
		ep.Retry = RetryPolicy{Delays: []time.Duration{time.Second}}
	})))
	id := accept(t, s, "canary-body", lane("a"))[0]
	s.untilAttempts(t, id, 1)
	s.Advance(time.Second)
	j, _ := s.untilState(t, id, event.Dead)
	s.until(t, "the death is logged", func() bool { return logs.FilterMessage("job is dead").Len() == 1 })

	failed, dead := logs.FilterMessage("attempt failed").All(), logs.FilterMessage("job is dead").All()
	if len(failed) != 1 || failed[0].Level != zap.WarnLevel || dead[0].Level != zap.ErrorLevel {
		t.Fatalf("%d failed and %d dead lines", len(failed), len(dead))
	}
	common := map[string]any{
		"job_id": id.String(), "event_id": j.EventID.String(), "source": "src", "endpoint": "src/a",
		"class": "status", "status": int64(500), "error": "HTTP 500 Internal Server Error",
	}
	for entry, own := range map[*observer.LoggedEntry]map[string]any{
		&failed[0]: {"attempt": int64(1), "next_retry": "1s"},
		&dead[0]:   {"attempt": int64(2), "reason": "attempts_exhausted"},
	} {
		fields := entry.ContextMap()
		for _, want := range []map[string]any{common, own} {
			for k, v := range want {
				if fields[k] != v {
					t.Errorf("%s: %s is %v, want %v", entry.Message, k, fields[k], v)
				}
			}
		}
	}
	for _, l := range logs.All() {
		enc := zapcore.NewJSONEncoder(zapcore.EncoderConfig{MessageKey: "m"})
		line, err := enc.EncodeEntry(l.Entry, l.Context)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line.String(), "canary") || strings.Contains(line.String(), "secret=") || strings.Contains(line.String(), "kept") {
			t.Errorf("a secret, body or header is in the log: %s", line)
		}
	}
}

func TestLinesAreLimitedAndTheRestCounted(t *testing.T) {
	at := time.Unix(0, 0)
	l := newLimiter(func() time.Time { return at }, 3)
	written, told := 0, 0
	line := func() {
		if ok, left := l.allow(); ok {
			written++
			told += left
		}
	}
	for range 10 {
		line()
	}
	if written != 3 || told != 0 {
		t.Fatalf("%d lines written, %d told as left out; want 3 and 0", written, told)
	}
	at = at.Add(time.Second)
	line()
	if written != 4 || told != 7 {
		t.Errorf("%d lines written, %d told as left out; want 4 and 7", written, told)
	}
	for range 5 {
		line()
	}
	if n := l.flush(); n != 3 || l.flush() != 0 {
		t.Errorf("flush told of %d, want 3 and then none", n)
	}
}
