// Package packages tests the units of deploy/systemd, and the deb and rpm packages of "make packages".
package packages

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// patience bounds each command of a test. Building takes most of it on a busy machine.
const patience = 20 * time.Minute

// run runs a command and returns its standard output.
func run(t *testing.T, dir string, env []string, argv ...string) string {
	t.Helper()
	out, stderr, err := try(t, dir, env, argv...)
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(argv, " "), err, out, stderr)
	}
	return out
}

func try(t *testing.T, dir string, env []string, argv ...string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = dir, &out, &errs, append(os.Environ(), env...)
	err = cmd.Run()
	return out.String(), errs.String(), err
}
