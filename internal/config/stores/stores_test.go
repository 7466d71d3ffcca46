package stores

import (
	"reflect"
	"testing"
)

// Each kind is complete, no key belongs to two kinds, and one kind is the default.
func TestKindsAreComplete(t *testing.T) {
	keys, defaults := map[string]bool{}, 0
	for _, k := range All() {
		if keys[k.Key] || k.Key == "" || k.About == "" || k.Open == nil || k.New == nil {
			t.Errorf("store %q: want a key of its own, About, Open and New", k.Key)
		}
		keys[k.Key] = true
		if k.Default {
			defaults++
		}
		if k.New != nil && reflect.TypeOf(k.New()).Elem().Kind() != reflect.Struct {
			t.Errorf("store %q: New returns %T, want a pointer to a struct", k.Key, k.New())
		}
	}
	if defaults != 1 {
		t.Errorf("%d stores are the default, want 1", defaults)
	}
}
