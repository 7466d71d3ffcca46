package harmonizerd

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
)

const followed = `lease: 20s
starter: self
disruption_limit: 0.5
disruption_limit_floor: 20
intervals:
  flapping_death: 3
  min_restart_delay: 30
  droplet_lost: 40
expected_state:
  file: apps.yaml
`

// following is a follower of a file, and the events that it passed on.
type following struct {
	*follower
	path   string
	events []apps.Configured
}

func newFollowing(t *testing.T) *following {
	t.Helper()
	f := &following{path: filepath.Join(t.TempDir(), "harmonizer.yaml")}
	f.save(t, followed)
	read := func() (config.Harmonizer, error) {
		h, _, err := config.ReadHarmonizer(f.path)
		return h, err
	}
	file, err := read()
	if err != nil {
		t.Fatal(err)
	}
	f.follower = newFollower(Parts{File: file, Read: read, Log: slog.New(slog.DiscardHandler)}, func(_ context.Context, ev apps.Event) error {
		f.events = append(f.events, ev.(apps.Configured))
		return nil
	})
	return f
}

// save replaces the file.
func (f *following) save(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(f.path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// reload reads the file, and returns the event; an empty one: there was none.
func (f *following) reload(t *testing.T) (last apps.Configured) {
	t.Helper()
	f.events = nil
	if err := f.read(t.Context(), func() bool { return true }); err != nil || len(f.events) > 1 {
		t.Fatalf("%d events, %v", len(f.events), err)
	}
	if len(f.events) == 1 {
		last = f.events[0]
	}
	return last
}

// The rules follow the numbers of a changed file. A key that needs a restart is named in the event and in the readiness, until the file
// is as it was.
func TestFileOfTheHarmonizerIsFollowed(t *testing.T) {
	t.Parallel()
	f := newFollowing(t)
	for _, step := range []struct {
		text, event string
		death       int
		state       admin.State
	}{
		{followed, "", 0, admin.OK},
		{strings.Replace(followed, "flapping_death: 3", "flapping_death: 5", 1), "changed: flapping_death 3 -> 5", 5, admin.OK},
		{strings.Replace(followed, "lease: 20s", "lease: 30s", 1), "changed: flapping_death 5 -> 3, lease 20s -> 30s; restart the harmonizer for lease", 3, admin.Degraded},
		{strings.Replace(followed, "lease: 20s", "lease: soon", 1), "the file is rejected, and the earlier one stays in use", 3, admin.Degraded},
		{strings.Replace(followed, "min_restart_delay: 30", "min_restart_delay: 9000", 1), "the file is rejected, and the earlier one stays in use", 3, admin.Degraded},
		{followed, "changed: lease 30s -> 20s", 3, admin.OK},
		{followed, "", 0, admin.OK},
	} {
		f.save(t, step.text)
		got := f.reload(t)
		if !strings.HasPrefix(got.What, step.event) || step.event == "" && got.What != "" {
			t.Errorf("event %q, want %q", got.What, step.event)
		}
		if step.death > 0 && *got.Config.FlappingDeath != step.death {
			t.Errorf("%s: flapping_death is %d, want %d", got.What, *got.Config.FlappingDeath, step.death)
		}
		if r := f.check().Read(t.Context()); r.State != step.state {
			t.Errorf("%s: %+v", got.What, r)
		}
	}
}

// Each prefix of the file and each deletion of a line is an event that names exactly what differs, or is rejected, and no rule other than
// those of apps.Live changes.
func TestCutsOfTheHarmonizersFileAreNamed(t *testing.T) {
	t.Parallel()
	f := newFollowing(t)
	var cuts []string
	lines := strings.SplitAfter(followed, "\n")
	for i := range followed {
		cuts = append(cuts, followed[:i])
	}
	for i := range lines {
		cuts = append(cuts, strings.Join(slices.Delete(slices.Clone(lines), i, i+1), ""))
	}
	valid := 0
	for _, cut := range cuts {
		before := config.HarmonizerParts(f.last)
		f.save(t, cut)
		got := f.reload(t)
		h, _, err := config.ReadHarmonizer(f.path)
		if err != nil {
			if !strings.Contains(got.What, "rejected") && got.What != "" || !maps.Equal(before, config.HarmonizerParts(f.last)) {
				t.Errorf("%q: %v, event %q", cut, err, got.What)
			}
			continue
		}
		valid++
		for _, name := range api.ConfigurationChangeOf(before, config.HarmonizerParts(h)).Names() {
			if !strings.Contains(got.What, name) {
				t.Errorf("%q: the event %q does not name %s", cut, got.What, name)
			}
		}
	}
	if valid < 30 {
		t.Errorf("only %d cuts are valid", valid)
	}
}

// A machine follows the numbers of apps.Live only.
func TestMachineFollowsLiveNumbers(t *testing.T) {
	t.Parallel()
	m, now := apps.NewMachine(apps.Config{}.WithDefaults()), time.Unix(1e9, 0)
	_, found := m.Step(now, apps.Configured{Config: apps.Config{DisruptionLimit: 1}.WithDefaults(), What: "changed: disruption_limit 0.3 -> 1"})
	if len(found) != 1 || found[0].Kind != api.AppFindingConfiguration || apps.SeverityOf(found[0].Kind) != api.SeverityInfo || found[0].Detail == "" {
		t.Errorf("findings %v, want the change", found)
	}
}
