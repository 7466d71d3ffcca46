package python_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/signals/python"
	"github.com/weirkeeper/weirkeeper/signals/signaltest"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

func python3(t *testing.T) string {
	t.Helper()
	path, err := testprograms.Python3(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// run runs Python. -B prevents __pycache__ in the source folder.
func run(ctx context.Context, t *testing.T, env []string, program string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(ctx, program, append([]string{"-B", "-W", "error"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

func TestUnittest(t *testing.T) {
	t.Parallel()
	run(t.Context(), t, nil, python3(t), "-m", "unittest")
}

// The program of the unit tests passes the kit of all signals.
func TestConformance(t *testing.T) {
	t.Parallel()
	signaltest.RunTarget(t, signaltest.Target{
		Path: python3(t),
		Args: []string{"-B", "test_weirsignal.py"},
		App:  "web",
		Sample: sigproto.Evaluation{Timestamp: 1_700_000_120, Series: []sigproto.Series{
			{Name: "requests_per_second", Times: []int64{1_700_000_000, 1_700_000_060}, Values: []float64{80, 250}},
		}},
	})
}

// pip installs the folder without a network, and the installed module is the single file.
func TestPip(t *testing.T) {
	t.Parallel()
	path, env, err := testprograms.Pip(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	target := t.TempDir()
	cmd := exec.CommandContext(t.Context(), path, "-m", "pip", "install", "--no-index", "--target", target, ".")
	cmd.Env = append(append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1"), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	if text, err := os.ReadFile(filepath.Join(target, "weirsignal.py")); err != nil || string(text) != string(python.Module()) {
		t.Errorf("installed module: %d bytes, %v, want %d bytes", len(text), err, len(python.Module()))
	}
	run(t.Context(), t, []string{"PYTHONPATH=" + target}, path, "-c", "import weirsignal; weirsignal.Given({})")
}
