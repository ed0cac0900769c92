package anvil

import (
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// logSwap is a log core whose target can be exchanged. An engine outlives configurations, and must write to the log of the
// one that rules: Caddy closes the old one's files.
type logSwap struct {
	target *atomic.Pointer[zapcore.Core]
	fields []zapcore.Field
}

// newLogSwap returns a logger that goes on under another target after use.
func newLogSwap(log *zap.Logger) (swapped *zap.Logger, use func(*zap.Logger)) {
	s := logSwap{target: new(atomic.Pointer[zapcore.Core])}
	use = func(to *zap.Logger) {
		core := to.Core()
		s.target.Store(&core)
	}
	use(log)
	return zap.New(s).Named(log.Name()), use
}

func (s logSwap) core() zapcore.Core {
	if len(s.fields) == 0 {
		return *s.target.Load()
	}
	return (*s.target.Load()).With(s.fields)
}

// Enabled implements zapcore.Core.
func (s logSwap) Enabled(l zapcore.Level) bool { return s.core().Enabled(l) }

// With implements zapcore.Core.
func (s logSwap) With(fields []zapcore.Field) zapcore.Core {
	all := make([]zapcore.Field, 0, len(s.fields)+len(fields))
	return logSwap{s.target, append(append(all, s.fields...), fields...)}
}

// Check implements zapcore.Core. The target's own cores add themselves, with their levels and filters.
func (s logSwap) Check(e zapcore.Entry, c *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return s.core().Check(e, c)
}

// Write implements zapcore.Core.
func (s logSwap) Write(e zapcore.Entry, fields []zapcore.Field) error {
	return s.core().Write(e, fields)
}

// Sync implements zapcore.Core.
func (s logSwap) Sync() error { return s.core().Sync() }
