package redecide

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/weirkeeper/weirkeeper/internal/platform/spelling"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
)

// decodeStrictly decodes one JSON object and nothing else. Its errors name keys
// with their spelling in the line.
func decodeStrictly(line []byte, out any) error {
	err := strictjson.Decode(line, out)
	if err == nil {
		return nil
	}
	text := strings.TrimPrefix(err.Error(), "json: ")
	key, unknown := strings.CutPrefix(text, "unknown field ")
	if !unknown {
		return errors.New(text)
	}
	key = strings.Trim(key, `"`)
	if near := nearestKey(key); near != "" {
		return fmt.Errorf("no such key %q; did you mean %s?", key, near)
	}
	return fmt.Errorf("no such key %q; \"weir decide --help\" has them all", key)
}

// nearestKey returns the key of a written line that is most like key; empty if none is.
func nearestKey(key string) (best string) {
	if len(key) > 64 {
		return ""
	}
	least := 1 + len(key)/3
	for _, t := range []reflect.Type{
		reflect.TypeFor[writtenCase](), reflect.TypeFor[writtenPool](), reflect.TypeFor[writtenGroup](),
		reflect.TypeFor[writtenNode](), reflect.TypeFor[writtenSignal](),
	} {
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if d := spelling.Distance(key, name); d <= least {
				best, least = name, d-1
			}
		}
	}
	return best
}
