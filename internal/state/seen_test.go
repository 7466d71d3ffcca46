package state_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// If several hosts see a version for the first time at once, one digest counts for all. A yank is added. Forget
// removes both.
func TestSeen(t *testing.T) {
	b := open(t, t.TempDir())
	seen, err := state.OpenSeen(t.Context(), b.JetStream(), "here", "web")
	if err != nil {
		t.Fatal(err)
	}
	key := release.SeenKey{
		Source: "0123456789abcdef", Ref: release.Ref{Namespace: "shop", Name: "rps", Version: "v1/x"}, Platform: release.Platform{OS: "linux", Arch: "amd64"},
	}
	at := time.Unix(1700000000, 0).UTC()
	learn := func(news release.Seen) release.Seen {
		t.Helper()
		savedValues, err := seen.Update(t.Context(), key, news)
		if err != nil {
			t.Error(err)
		}
		return savedValues
	}
	for generation := range 2 {
		if savedValues := learn(release.Seen{}); savedValues != (release.Seen{Generation: generation}) {
			t.Errorf("at first %v is kept", savedValues)
		}
		answers := make([]release.Seen, 4)
		var hosts sync.WaitGroup
		for i := range answers {
			hosts.Go(func() { answers[i] = learn(release.Seen{Digest: release.Digest{byte(i + 1)}, At: at}) })
		}
		hosts.Wait()
		first := learn(release.Seen{})
		for _, answer := range answers {
			if answer != first || answer.Digest == (release.Digest{}) {
				t.Errorf("a host got %v, the first is %v", answer, first)
			}
		}
		yanked := &release.Yanked{Why: "it is wrong", At: at}
		want := release.Seen{Digest: first.Digest, At: at, Yanked: yanked, Generation: generation}
		if diff := cmp.Diff(want, learn(release.Seen{Yanked: yanked})); diff != "" {
			t.Errorf("with a yank (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, learn(release.Seen{Digest: release.Digest{9}})); diff != "" {
			t.Errorf("later (-want +got):\n%s", diff)
		}
		if err := seen.Forget(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
}
