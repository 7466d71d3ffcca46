package command

import (
	"encoding/json"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/weirkeeper/weirkeeper/internal/platform/terminal"
)

// YAML of a value has the keys and values of its JSON, in the same order, also through the stream of a terminal.
func TestYAMLIsTheJSON(t *testing.T) {
	for _, v := range []any{
		map[string]any{}, []any{}, nil, "text", true, 1.5, 0, -3, int64(math.MaxInt64), uint64(math.MaxUint64), 1e300,
		[]string{"", " ", "a: b", "- x", "yes", "null", "1.0", "2026-01-02T15:04:05Z", "{}", "! x", "&a", "*a", "#", "'", `"`, "a\nb", "a\n", "\ttab", "größe 数"},
		[]string{"\x1b[2J", "\x00\x7f\u0085\u009b31m", "\u202e\U000e0001\ufffd", "a\rb", "\u2028"},
		map[string]any{"a\x1b": 1, "b c": []any{map[string]any{"x": []int{1, 2}, "y": nil}, []any{[]int{3}}}},
		struct {
			B string `json:"b"`
			A []struct {
				N int `json:"n"`
			} `json:"a"`
		}{"x", []struct {
			N int `json:"n"`
		}{{1}, {2}}},
	} {
		var out strings.Builder
		if err := encode(terminal.New(&out), FormYAML, v); err != nil {
			t.Fatalf("%v: %v", v, err)
		}
		if i := strings.IndexAny(out.String(), "\x1b\x00\x7f\r\u009b\u202e"); i >= 0 {
			t.Errorf("%q has a control character at %d", out.String(), i)
		}
		var got, want any
		if err := yaml.Unmarshal([]byte(out.String()), &got); err != nil {
			t.Errorf("%v is printed as\n%s\n%v", v, out.String(), err)
			continue
		}
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &want); err != nil {
			t.Fatal(err)
		}
		if data, err = json.Marshal(got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v is printed as\n%s\nwhich is %v, want %v", v, out.String(), got, want)
		}
	}
	var out strings.Builder
	if err := encode(&out, FormYAML, struct {
		Z int `json:"z"`
		A int `json:"a"`
	}{1, 2}); err != nil || out.String() != "z: 1\na: 2\n" {
		t.Errorf("a struct is printed as %q, %v, want the order of its fields", out.String(), err)
	}
}

// A stream of values is a line of JSON each, or a YAML document each.
func TestEncodeNext(t *testing.T) {
	for form, want := range map[string]string{FormJSON: "{\"a\":1}\n[2]\n", FormYAML: "---\na: 1\n---\n- 2\n"} {
		var out strings.Builder
		for _, v := range []any{map[string]int{"a": 1}, []int{2}} {
			if err := EncodeNext(&out, form, v); err != nil {
				t.Fatal(err)
			}
		}
		if out.String() != want {
			t.Errorf("%s: %q, want %q", form, out.String(), want)
		}
	}
	if err := encode(io.Discard, FormYAML, math.NaN()); err == nil {
		t.Error("a value that JSON cannot hold is printed")
	}
}
