package state_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

func TestTrials(t *testing.T) {
	b := open(t, t.TempDir(), "other")
	trials, err := state.OpenTrials(t.Context(), b.JetStream(), "here", "web")
	if err != nil {
		t.Fatal(err)
	}
	other, err := state.OpenTrials(t.Context(), b.JetStream(), "here", "other")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1700000000, 0).UTC()
	web := api.Trial{App: "web", Signal: "shop/rps", Pinned: "v1", Shadow: "v2", Outcome: api.TrialPromoted, Agreeing: 3, Compared: 3, Since: at}
	db := api.Trial{App: "db", Signal: "shop/queue", Pinned: "v1", Shadow: "v2", Since: at}
	for _, trial := range []api.Trial{{App: "web", Since: at}, db, web} {
		if err := trials.Save(t.Context(), trial); err != nil {
			t.Fatal(err)
		}
	}
	if err := other.Save(t.Context(), api.Trial{App: "web", Since: at}); err != nil {
		t.Fatal(err)
	}
	got, err := trials.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	byApp := map[string]api.Trial{}
	for _, trial := range got {
		byApp[trial.App] = trial
	}
	if diff := cmp.Diff(map[string]api.Trial{"web": web, "db": db}, byApp); diff != "" || len(got) != 2 {
		t.Errorf("loaded %d trials (-want +got):\n%s", len(got), diff)
	}
}

// TestTrialsUnreadable shows that an unreadable trial does not hide the others.
func TestTrialsUnreadable(t *testing.T) {
	b := open(t, t.TempDir(), "other")
	trials, err := state.OpenTrials(t.Context(), b.JetStream(), "here", "web")
	if err != nil {
		t.Fatal(err)
	}
	if err := trials.Save(t.Context(), api.Trial{App: "web"}); err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{"trial.bad": "{", "trial.strange": `{"app":"web"}`} {
		putRaw(t, b.JetStream(), key, value)
	}
	got, err := trials.Load(t.Context())
	if len(got) != 1 || err == nil || !strings.Contains(err.Error(), "trial.bad") || !strings.Contains(err.Error(), `it belongs to app "web"`) {
		t.Errorf("Load() = %v, %v; want one trial and an error that names the two others", got, err)
	}
}
