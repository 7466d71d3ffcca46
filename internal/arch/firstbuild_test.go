package arch

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestFirstBuildCounter runs the counter of "make build" on the output of a build.
func TestFirstBuildCounter(t *testing.T) {
	const clearLine = "\r\x1b[K"
	for _, test := range []struct {
		name, input, want string
		exit              int
	}{
		{"success", "total 2\nexample.com/a/v2\ngopkg.in/yaml.v3\nexit 0\n",
			clearLine + "building: 1 of 2 packages" + clearLine + "building: 2 of 2 packages" + clearLine, 0},
		{"download", "go: downloading example.com/a v1.0.0\ntotal 0\nexit 0\n", clearLine + "downloading: module 1" + clearLine, 0},
		{"error", "total 2\na\n# b\nb.go:3:1: undefined: x\nexit 1\n",
			clearLine + "building: 1 of 2 packages" + clearLine + "# b\n" + clearLine + "b.go:3:1: undefined: x\n" + clearLine, 1},
		{"killed", "total 2\na\n", clearLine + "building: 1 of 2 packages" + clearLine, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "sh", filepath.Join("..", "..", "first-build.sh"))
			cmd.Stdin = strings.NewReader(test.input)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			code := 0
			if err := cmd.Run(); err != nil {
				failed, ok := errors.AsType[*exec.ExitError](err)
				if !ok {
					t.Fatal(err)
				}
				code = failed.ExitCode()
			}
			if out.String() != test.want || code != test.exit {
				t.Errorf("it printed %q and exited with %d, want %q and %d", out.String(), code, test.want, test.exit)
			}
		})
	}
}
