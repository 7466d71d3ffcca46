package python_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/signals/signaltest"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

const program = "requests_per_second.py"

// module is the folder of the module that the example imports.
const module = "PYTHONPATH=../../../signals/python"

func python3(t *testing.T) string {
	t.Helper()
	path, err := testprograms.Python3(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestUnittest(t *testing.T) {
	t.Parallel()
	// -B prevents __pycache__ in the source folder.
	cmd := exec.CommandContext(t.Context(), python3(t), "-B", "-W", "error", "-m", "unittest")
	cmd.Env = append(os.Environ(), module)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("python3 -m unittest: %v\n%s", err, out)
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	signaltest.RunTarget(t, signaltest.Target{
		Path: python3(t),
		Args: []string{"-B", program},
		Env:  []string{module},
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
