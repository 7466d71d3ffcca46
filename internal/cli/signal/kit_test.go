package signal

import (
	"reflect"
	"strings"
	"testing"
)

func TestParameterValues(t *testing.T) {
	for text, want := range map[string]any{
		"":            nil,
		"150":         uint64(150),
		"1.5":         1.5,
		"true":        true,
		"plain":       "plain",
		"[a, {b: c}]": []any{"a", map[string]any{"b": "c"}},
	} {
		if got, err := decodeParameter(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("decodeParameter(%q) = %#v, %v, want %#v", text, got, err, want)
		}
	}
	for name, text := range map[string]string{
		"no YAML":        "[a",
		"alias":          "[&x [a], *x]",
		"two documents":  "a\n---\nb",
		"too deep":       strings.Repeat("[", 100) + strings.Repeat("]", 100),
		"too many words": "[" + strings.Repeat("a, ", 1<<14) + "a]",
		"twice a key":    "{a: 1, a: 2}",
		"octal number":   "{a: [010]}",
		"binary number":  "0b11",
		"not UTF-8":      "\xff",
	} {
		if got, err := decodeParameter(text); err == nil {
			t.Errorf("%s: decodeParameter(%.40q) = %#v, want an error", name, text, got)
		}
	}
}
