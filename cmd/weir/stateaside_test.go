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
	state := kvbucket.New(b.JetStream(), names.PoolBucket("local", "default"))
	for key, value := range map[string]string{"drain.i-1": "{\n\x80", "state": "{\"epoch\":1}\n{}", "health": "{\"epoch\":-1}\n", "seen.1.2": "x"} {
		if _, err := state.Put(t.Context(), key, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	r := run("state", "check")
	for _, want := range []string{"weir state aside drain.i-1 --pool default --reason TEXT", "weir state aside health --pool default --reason TEXT"} {
		if r.code != 1 || !strings.Contains(r.stdout, want) {
			t.Errorf("weir state check: %+v, want %q with code 1", r, want)
		}
	}
	if strings.Contains(r.stdout, ":default  state") || strings.Contains(r.stdout, "seen.") {
		t.Errorf("weir state check: %+v, want no valid value", r)
	}
	if r := run("state", "aside", "state", "--reason", "x"); r.code != 1 || !strings.Contains(r.stderr, "its value can be read") {
		t.Errorf("weir state aside of a valid value: %+v", r)
	}
	for _, key := range []string{"drain.i-1", "health"} {
		if r := run("state", "aside", key, "--reason", "x"); r.code != 0 || !strings.HasPrefix(r.stdout, key+": set aside as aside.") {
			t.Errorf("weir state aside %s: %+v", key, r)
		}
	}
	if r := run("state", "check"); r.code != 0 {
		t.Errorf("weir state check: %+v, want no damage", r)
	}
}
