package judge

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
)

// Each mode is complete, and each key of Options is used by a mode or by all.
func TestModeKindsAreComplete(t *testing.T) {
	var used []string
	for _, k := range modeKinds() {
		if k.Type == "" || k.Source == 0 || (k.Source == FromProvider) != (k.Observe != nil) {
			t.Errorf("mode %q: want a type and a source, and Observe if that is the provider", k.Type)
		}
		used = append(used, k.options...)
	}
	thresholds := []string{"failure_threshold", "success_threshold"}
	var keys []string
	for f := range reflect.TypeFor[Options]().Fields() {
		key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		keys = append(keys, key)
		if !slices.Contains(thresholds, key) && !slices.Contains(used, key) {
			t.Errorf("option %s is used by no mode", key)
		}
	}
	for _, key := range used {
		if !slices.Contains(keys, key) {
			t.Errorf("option %s of a mode is no key of Options", key)
		}
	}
	if k := KindOfMode(api.DetectionType("TELEPATHY")); k.Source != 0 {
		t.Errorf("the kind of an unknown mode is %+v", k)
	}
}
