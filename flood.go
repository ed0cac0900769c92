package anvil

import (
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const (
	floodWindow = 10 * time.Second
	floodLines  = 10
)

// sampled drops lines of one message beyond ten in ten seconds: a flood of forgeries must not become a flood of logs. The
// next line that is written says how many were left out; the metrics count them all. Each source has its own, so that who
// floods one hides nothing of another. (Zap's sampler takes half a megabyte, and tells nothing.)
func sampled(log *zap.Logger) *zap.Logger {
	said := &messages{by: map[string]*window{}}
	return log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core { return sampler{c, said} }))
}

type sampler struct {
	zapcore.Core
	said *messages
}

func (s sampler) With(fields []zapcore.Field) zapcore.Core {
	return sampler{s.Core.With(fields), s.said}
}

func (s sampler) Check(line zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !s.Enabled(line.Level) {
		return to
	}
	ok, left := s.said.allow(line.Message, line.Time)
	switch {
	case !ok:
		return to
	case left > 0:
		return s.Core.With([]zapcore.Field{zap.Int("left_out", left)}).Check(line, to)
	}
	return s.Core.Check(line, to)
}

// messages are constants of this program, so there are few.
type messages struct {
	mu sync.Mutex
	by map[string]*window
}

type window struct {
	since time.Time
	let   int
	left  int
}

func (m *messages) allow(message string, now time.Time) (ok bool, left int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.by[message]
	if w == nil {
		w = &window{}
		m.by[message] = w
	}
	if now.Sub(w.since) >= floodWindow {
		w.since, w.let = now, 0
	}
	if w.let >= floodLines {
		w.left++
		return false, 0
	}
	w.let++
	left, w.left = w.left, 0
	return true, left
}
