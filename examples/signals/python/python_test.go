package python_test

import (
	"os/exec"
	"testing"

	"github.com/weirkeeper/weirkeeper/signals/signaltest"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

const program = "requests_per_second.py"

func python3(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Fatalf("this example needs python3 3.9 or newer in PATH: %v", err)
	}
	return path
}

func TestUnittest(t *testing.T) {
	t.Parallel()
	// -B prevents __pycache__ in the source folder.
	out, err := exec.CommandContext(t.Context(), python3(t), "-B", "-W", "error", "-m", "unittest").CombinedOutput()
	if err != nil {
		t.Fatalf("python3 -m unittest: %v\n%s", err, out)
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	signaltest.RunTarget(t, signaltest.Target{
		Path: python3(t),
		Args: []string{program},
		App:  "web",
		Sample: sigproto.Evaluation{
			Timestamp: 1_700_000_120,
			Series: []sigproto.Series{{
				Name:   "requests_per_second",
				Times:  []int64{1_700_000_000, 1_700_000_060, 1_700_000_120},
				Values: []float64{80, 120, 250},
			}},
		},
	})
}
