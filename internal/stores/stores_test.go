package stores

import (
	"reflect"
	"testing"
)

// Each kind is complete, no key belongs to two kinds, and one kind needs no key.
func TestKindsAreComplete(t *testing.T) {
	keys := map[string]bool{}
	for _, k := range All() {
		if keys[k.Key] || k.About == "" || k.Open == nil || (k.Key == "") != (k.New == nil) {
			t.Errorf("store %q: want a key of its own, About, Open, and New if it has a key", k.Key)
		}
		keys[k.Key] = true
		if k.New != nil && reflect.TypeOf(k.New()).Elem().Kind() != reflect.Struct {
			t.Errorf("store %q: New returns %T, want a pointer to a struct", k.Key, k.New())
		}
	}
	if !keys[""] {
		t.Error("no store is the default")
	}
}
