package plugin

import (
	"io"
	"log/slog"
)

// timeFormat is the time format of hclog's JSON.
const timeFormat = "2006-01-02T15:04:05.000000Z07:00"

// newLog returns a logger that writes hclog's JSON, which the host of a go-plugin parses. It writes all levels; the
// host filters them.
func newLog(w io.Writer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: slog.Level(-8), ReplaceAttr: asHCLog}))
}

// asHCLog converts a record's own attributes to hclog's names and formats.
func asHCLog(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.TimeKey:
		if a.Value.Kind() == slog.KindTime {
			return slog.String("@timestamp", a.Value.Time().Format(timeFormat))
		}
	case slog.LevelKey:
		if level, ok := a.Value.Any().(slog.Level); ok {
			return slog.String("@level", levelName(level))
		}
	case slog.MessageKey:
		return slog.Attr{Key: "@message", Value: a.Value}
	}
	if a.Value.Kind() == slog.KindDuration {
		return slog.String(a.Key, a.Value.Duration().String())
	}
	return a
}

// levelName returns hclog's name of the nearest level that is not higher.
func levelName(level slog.Level) string {
	switch {
	case level < slog.LevelDebug:
		return "trace"
	case level < slog.LevelInfo:
		return "debug"
	case level < slog.LevelWarn:
		return "info"
	case level < slog.LevelError:
		return "warn"
	}
	return "error"
}
