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

// record is a line of hclog's JSON, which is how a plugin logs.
type record struct {
	level   slog.Level
	message string
	attrs   []slog.Attr // in order of their keys
}

// parseRecord takes a line of standard error apart; ok is false if it is
// something else than a record.
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
	delete(fields, "@timestamp") // the log has its own clock
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		r.attrs = append(r.attrs, slog.Any(key, fields[key]))
	}
	return r, true
}

// Readable returns a line of a plugin's output as people want to read it: of a log
// record level, message and attributes. It is empty for the handshake.
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

// levels are those of hclog in slog.
var levels = map[hclog.Level]slog.Level{
	hclog.Trace: slog.LevelDebug - 4,
	hclog.Debug: slog.LevelDebug,
	hclog.Info:  slog.LevelInfo,
	hclog.Warn:  slog.LevelWarn,
	hclog.Error: slog.LevelError,
}

// write logs the record. What the plugin named stands in a group, where it does
// not hide what we say of it.
func (r record) write(log *slog.Logger) {
	if len(r.attrs) == 0 {
		log.LogAttrs(context.Background(), r.level, r.message)
		return
	}
	log.LogAttrs(context.Background(), r.level, r.message, slog.GroupAttrs("attrs", r.attrs...))
}
