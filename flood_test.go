package anvil

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func TestAFloodAtOneSourceHidesNothingOfAnother(t *testing.T) {
	unhurried(func(t *testing.T) {
		core, logs := observer.New(zapcore.DebugLevel)
		github, stripe := as(t, "github", nil), as(t, "stripe", nil)
		at := func(p signer) desk {
			return newDeskOf(t, &SourceConfig{Source: p.ID, Verify: []VerifyConfig{{Provider: p.ID, Secrets: []string{"newer-secret-0123456789"}}}}, zap.New(core), logs)
		}
		flooded, other := at(github), at(stripe)
		for range 3 * floodLines {
			flooded.post(t, github, time.Now(), "{}", nil)
		}
		other.post(t, stripe, time.Now(), "{}", nil)
		lines := map[any]int{}
		for _, l := range logs.FilterMessageSnippet("refused webhook").All() {
			lines[l.ContextMap()["source"]]++
		}
		if lines["github"] != floodLines || lines["stripe"] != 1 {
			t.Errorf("lines by source: %v", lines)
		}
	})(t)
}

func TestTheNextLineSaysHowManyWereLeftOut(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	now := time.Unix(1_800_000_000, 0)
	log := sampled(zap.New(core, zap.WithClock(clock(func() time.Time { return now })))).With(zap.String("source", "a"))
	for range floodLines + 7 {
		log.Warn("refused")
	}
	log.Warn("another message")
	log.Debug("not for this level")
	now = now.Add(floodWindow)
	log.Warn("refused")
	log.Warn("refused")
	var told []any
	for _, l := range logs.FilterMessage("refused").All() {
		if n, ok := l.ContextMap()["left_out"]; ok {
			told = append(told, n)
		}
	}
	if logs.FilterMessage("refused").Len() != floodLines+2 || len(told) != 1 || told[0] != int64(7) || logs.Len() != floodLines+3 {
		t.Errorf("%d lines, told %v", logs.Len(), told)
	}
}

type clock func() time.Time

func (c clock) Now() time.Time                       { return c() }
func (clock) NewTicker(d time.Duration) *time.Ticker { return time.NewTicker(d) }

func TestAPublicURLThatTheSenderDoesNotHaveIsAHint(t *testing.T) {
	unhurried(func(t *testing.T) {
		core, logs := observer.New(zapcore.DebugLevel)
		square := as(t, "square", nil)
		d := newDeskOf(t, &SourceConfig{
			Source: "square", PublicURL: "https://elsewhere.example", Verify: []VerifyConfig{{Provider: "square", Secrets: []string{square.keys.Secret}}},
		}, zap.New(core), logs)
		d.post(t, square, time.Now(), "{}", nil)
		if hints := d.line(t)["hints"]; len(hints.([]any)) != 1 || !strings.Contains(hints.([]any)[0].(string), "public_url") {
			t.Errorf("hints %v", hints)
		}
	})(t)
}
