package control

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise/output"
)

// record is a log record of a plugin: a line of hclog's JSON.
type record struct {
	level   slog.Level
	message string
	attrs   []slog.Attr // sorted by key
}

// parseRecord parses a line of standard error. ok is false if the line is not a log record.
func parseRecord(line []byte) (r record, ok bool) {
	if len(line) == 0 || line[0] != '{' {
		return record{}, false
	}
	var fields map[string]any
	if err := json.Unmarshal(line, &fields); err != nil {
		return record{}, false
	}
	message, isText := fields["@message"].(string)
	name, isName := fields["@level"].(string)
	level, known := levels[hclog.LevelFromString(name)]
	if !isText || !isName || !known {
		return record{}, false
	}
	r = record{level: level, message: message}
	delete(fields, "@message")
	delete(fields, "@level")
	delete(fields, "@timestamp") // the logger adds its own time
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		r.attrs = append(r.attrs, slog.Any(key, fields[key]))
	}
	return r, true
}

// Readable formats a line of a plugin's output for display: for a log record its level, message and attributes. It
// returns "" for the handshake.
func Readable(stream, line string) string {
	if stream == output.Stdout && strings.Count(line, "|") >= 4 && strings.HasSuffix(line, "|grpc|") {
		return ""
	}
	r, ok := parseRecord([]byte(line))
	if stream != output.Stderr || !ok {
		return line
	}
	var b strings.Builder
	b.WriteString(r.level.String() + " " + r.message)
	for _, a := range r.attrs {
		fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
	}
	return b.String()
}

// levels maps hclog's levels to those of slog.
var levels = map[hclog.Level]slog.Level{
	hclog.Trace: slog.LevelDebug - 4,
	hclog.Debug: slog.LevelDebug,
	hclog.Info:  slog.LevelInfo,
	hclog.Warn:  slog.LevelWarn,
	hclog.Error: slog.LevelError,
}

// write logs the record. The plugin's attributes are in a group, so they cannot hide ours.
func (r record) write(log *slog.Logger) {
	if len(r.attrs) == 0 {
		log.LogAttrs(context.Background(), r.level, r.message)
		return
	}
	log.LogAttrs(context.Background(), r.level, r.message, slog.GroupAttrs("attrs", r.attrs...))
}
