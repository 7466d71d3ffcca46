package autoscaler

import (
	"testing"
)

// A state of a later version is rejected and not changed.
func TestStateOfLaterVersionIsRefused(t *testing.T) {
	t.Parallel()
	w, _, _ := steady(t, 2)
	later := `{"schema":2,"weir":"v9.1.0","state":{"wanted":{"a":2}}}`
	w.memory.data = []byte(later)
	w.loop.Close()
	w.loop = w.newLoop()
	t.Cleanup(w.loop.Close)
	err := w.loop.Open(t.Context())
	want := "load the state of pool default: a later version of weir wrote it: it has schema 2, this version reads schema 1: " +
		"run weir v9.1.0 or later; nothing was changed"
	if err == nil || err.Error() != want {
		t.Errorf("open = %v, want %s", err, want)
	}
	if r := w.tick(); r.Failed != want {
		t.Errorf("the tick: %q, want %q", r.Failed, want)
	}
	w.wantCalls()
	if string(w.memory.data) != later {
		t.Errorf("kept %s, want it untouched", w.memory.data)
	}
}
