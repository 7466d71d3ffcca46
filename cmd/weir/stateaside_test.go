package main

import (
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// TestUndecodableStateIsSetAside stores values that no autoscaler can decode. "weir state check" finds them without an
// autoscaler and names the command that helps.
func TestUndecodableStateIsSetAside(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	run := inData(data)
	b := storedApps(t, data, nil)
	state := kvbucket.New(b.JetStream(), names.StateBucket("local"))
	for key, value := range map[string]string{"drain.default.i-1": "{\n\x80", "pool.default": "{\"epoch\":1}\n{}", "health.web": "{\"epoch\":-1}\n", "seen.1.2": "x"} {
		if _, err := state.Put(t.Context(), key, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	r := run("state", "check")
	for _, want := range []string{"weir state aside drain.default.i-1 --reason TEXT", "weir state aside health.web --reason TEXT"} {
		if r.code != 1 || !strings.Contains(r.stdout, want) {
			t.Errorf("weir state check: %+v, want %q with code 1", r, want)
		}
	}
	if strings.Contains(r.stdout, "pool.default") || strings.Contains(r.stdout, "seen.") {
		t.Errorf("weir state check: %+v, want no valid value", r)
	}
	if r := run("state", "aside", "pool.default", "--reason", "x"); r.code != 1 || !strings.Contains(r.stderr, "its value can be read") {
		t.Errorf("weir state aside of a valid value: %+v", r)
	}
	for _, key := range []string{"drain.default.i-1", "health.web"} {
		if r := run("state", "aside", key, "--reason", "x"); r.code != 0 || !strings.HasPrefix(r.stdout, key+": set aside as aside.") {
			t.Errorf("weir state aside %s: %+v", key, r)
		}
	}
	if r := run("state", "check"); r.code != 0 {
		t.Errorf("weir state check: %+v, want no damage", r)
	}
}
