package control

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise/output"
)

func TestParseRecord(t *testing.T) {
	for _, test := range []struct {
		name string
		line string
		want *record // nil: not a record
	}{
		{"hclog", `{"@level":"warn","@message":"m","@module":"x","@timestamp":"2026-01-01T00:00:00.000000Z","b":1,"a":{"c":[true]}}`,
			&record{slog.LevelWarn, "m", []slog.Attr{
				slog.Any("@module", "x"), slog.Any("a", map[string]any{"c": []any{true}}), slog.Any("b", 1.0)}}},
		{"trace", `{"@level":"trace","@message":""}`, &record{level: slog.LevelDebug - 4}},
		{"upper case", `{"@level":"ERROR","@message":"m"}`, &record{level: slog.LevelError, message: "m"}},
		{"empty", ``, nil},
		{"text", `panic: runtime error`, nil},
		{"cut", `{"@level":"warn","@message":"m`, nil},
		{"other JSON", `{"level":"warn","msg":"m"}`, nil},
		{"no level of ours", `{"@level":"fatal","@message":"m"}`, nil},
		// go-plugin's own host panics on these two.
		{"message that is no text", `{"@level":"warn","@message":1}`, nil},
		{"level that is no text", `{"@level":{},"@message":"m"}`, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, ok := parseRecord([]byte(test.line))
			if ok != (test.want != nil) {
				t.Fatalf("parseRecord = %+v, %v", got, ok)
			}
			if test.want == nil {
				return
			}
			// Compare as text: maps in a slog.Value are not comparable.
			if got, want := fmt.Sprint(got.level, got.message, got.attrs), fmt.Sprint(test.want.level, test.want.message, test.want.attrs); got != want {
				t.Errorf("parseRecord = %s, want %s", got, want)
			}
		})
	}
}

func FuzzParseRecord(f *testing.F) {
	for _, line := range []string{
		`{"@level":"warn","@message":"m","a":1}`, `{"@level":1,"@message":"m"}`, `{"@timestamp":{}}`, `{`, `[]`, "{\"@level\":\"\xff\"}",
	} {
		f.Add([]byte(line))
	}
	log := slog.New(slog.DiscardHandler)
	f.Fuzz(func(t *testing.T, line []byte) {
		if r, ok := parseRecord(line); ok {
			r.write(log)
		}
	})
}

func TestReadable(t *testing.T) {
	for _, c := range []struct{ name, stream, line, want string }{
		{"plain", output.Stderr, "hello", "hello"},
		{"record", output.Stderr, `{"@level":"warn","@message":"late","@timestamp":"x","zone":"a","after":3}`, "WARN late after=3 zone=a"},
		{"record on the wrong stream", output.Stdout, `{"@level":"warn","@message":"late"}`, `{"@level":"warn","@message":"late"}`},
		{"no record", output.Stderr, `{"@level":5}`, `{"@level":5}`},
		{"handshake", output.Stdout, "1|1|unix|/tmp/plugin-dir1/plugin2|grpc|", ""},
		{"mark", output.Marks, "started, pid 3", "started, pid 3"},
	} {
		if got := Readable(c.stream, c.line); got != c.want {
			t.Errorf("%s: Readable(%q, %q) = %q, want %q", c.name, c.stream, c.line, got, c.want)
		}
	}
}
