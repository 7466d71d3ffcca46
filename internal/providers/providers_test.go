package providers

import (
	"reflect"
	"testing"
)

// Each kind is complete, and no key belongs to two kinds.
func TestKindsAreComplete(t *testing.T) {
	names, keys := map[string]bool{}, map[string]bool{}
	for _, k := range All() {
		if k.Name == "" || names[k.Name] || k.Open == nil || len(k.Selectors) == 0 {
			t.Errorf("kind %q: want a name of its own, Open and a selector", k.Name)
		}
		names[k.Name] = true
		for _, s := range k.Selectors {
			if s.Key == "" || keys[s.Key] || s.About == "" {
				t.Errorf("selector %q of %s: want a key of its own, and About", s.Key, k.Name)
			}
			keys[s.Key] = true
			one, other := reflect.ValueOf(s.New()), reflect.ValueOf(s.New())
			if one.Kind() != reflect.Pointer || one.Elem().Kind() != reflect.Struct || one.Pointer() == other.Pointer() {
				t.Errorf("selector %q: New returns %s, want another pointer to a struct each time", s.Key, one.Type())
			}
			if len(s.Can.Actions) == 0 || len(s.Can.Modes) == 0 {
				t.Errorf("selector %q: Can lists no actions or no modes", s.Key)
			}
		}
	}
}
