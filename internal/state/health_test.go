package state_test

import (
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/state"
)

func saveHealth(t *testing.T, h *state.Holder, data string) {
	t.Helper()
	if err := h.Health().Save(t.Context(), []byte(data)); err != nil {
		t.Fatal(err)
	}
}

// wantHealth checks the last saved health; "" means nothing was saved.
func wantHealth(t *testing.T, h *state.Holder, want string) {
	t.Helper()
	got, ok, err := h.Health().Load(t.Context())
	if string(got) != want || ok != (want != "") || err != nil {
		t.Errorf("Health's Load = %.80q, %t, %v, want %.80q", got, ok, err, want)
	}
}

func TestHealthIsTakenOver(t *testing.T) {
	js := js(t)
	a := hold(t, js, "a")
	wantHealth(t, a, "")
	save(t, a, "state")
	wantHealth(t, a, "")
	saveHealth(t, a, `{"nodes": {"i-1": "quarantined"}}`)
	wantSaved(t, a, "state")

	b := hold(t, js, "a") // a was halted and still counts itself the holder
	if value, _ := raw(t, js, "health"); !strings.HasPrefix(value, `{"epoch":2}`+"\n{") {
		t.Errorf("it is %q, want it with epoch 2", value)
	}
	wantHealth(t, b, `{"nodes": {"i-1": "quarantined"}}`)
	saveHealth(t, b, "of b")
	wantNotHolder(t, "a's Save", a.Health().Save(t.Context(), []byte("late")))
	wantHealth(t, hold(t, js, "a"), "of b")
}

// A process that lost the pool before the first health was saved cannot save health.
func TestLateFirstHealthIsRefused(t *testing.T) {
	js := js(t)
	a := hold(t, js, "a")
	b := hold(t, js, "a")
	wantNotHolder(t, "a's Save", a.Health().Save(t.Context(), []byte("late")))
	wantHealth(t, b, "")
	wantHealth(t, hold(t, js, "a"), "")
}

// A program without node health held the pool in between.
func TestHealthSurvivesAHolderWithoutNodeHealth(t *testing.T) {
	js := js(t)
	a := hold(t, js, "a")
	saveHealth(t, a, "kept")
	before, _ := raw(t, js, "health")
	b := hold(t, js, "a")
	save(t, b, "of b")
	putRaw(t, js, "health", before)
	wantHealth(t, hold(t, js, "a"), "kept")
}

func TestHealthDuringATakeoverCounts(t *testing.T) {
	js := js(t)
	a := hold(t, js, "a")
	saveHealth(t, a, "first")
	l := leased(t, js, "a")
	b, err := state.OpenHolder(t.Context(), failing{JetStream: js, before: func(key string) error {
		if value, _ := raw(t, js, key); key == "health" && strings.Contains(value, "first") {
			saveHealth(t, a, "saved last")
		}
		return nil
	}}, l, nil, "here", "web")
	if err != nil {
		t.Fatal(err)
	}
	wantHealth(t, b, "saved last")
}

func TestSizesOfHealth(t *testing.T) {
	js := js(t)
	h := hold(t, js, "a")
	large := strings.Repeat("i-0123456789abcdef0,", 200_000) // 4 MB
	saveHealth(t, h, large)
	for name, data := range map[string][]byte{"nothing": nil, "too much": make([]byte, 8<<20+1)} {
		if err := h.Health().Save(t.Context(), data); err == nil || !strings.Contains(err.Error(), "save health of pool web") {
			t.Errorf("Save of %s = %v, want an error", name, err)
		}
	}
	if value, _ := raw(t, js, "health"); len(value) > 256<<10 {
		t.Errorf("%d bytes in the bucket, want them packed", len(value))
	}
	wantHealth(t, hold(t, js, "a"), large)
}

func TestUnreadableHealthIsNamed(t *testing.T) {
	js := js(t)
	saveHealth(t, hold(t, js, "a"), "saved")
	putRaw(t, js, "health", "garbage\n{}")
	_, err := state.OpenHolder(t.Context(), js, leased(t, js, "a"), nil, "here", "web")
	if err == nil || !strings.Contains(err.Error(), "health: its first line: ") {
		t.Errorf("OpenHolder = %v", err)
	}
}
