package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/localworld"
)

// wrongInput is a wrong command line, or one with a wrong file. The answer must state what is
// wrong, where, and what to do.
type wrongInput struct {
	line             string            // of the command; · is a space in an argument, DIR the folder of the files
	files            map[string]string // the content of each; a content that begins with "!" is a kind of makeFile
	code             int
	what, where, fix string
}

// makeFile writes a file. A content that begins with "!" is something else than a file.
func makeFile(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	switch content {
	case "!pipe": // without a writer
		return syscall.Mkfifo(path, 0o600)
	case "!folder":
		return os.Mkdir(path, 0o700)
	case "!loop":
		return os.Symlink(filepath.Base(path), path)
	case "!memory": // cannot be read, also by root
		return os.Symlink("/proc/self/mem", path)
	case "!none":
		return nil
	case "!open":
		return os.Mkdir(path, 0o700) // for all users: see runWrong
	}
	return os.WriteFile(path, []byte(content), 0o600)
}

// longestAnswer bounds what a mistake may print, in bytes: a huge file is not printed.
const longestAnswer = 8 << 10

// wrongTimeout bounds a row: no mistake waits for anything.
const wrongTimeout = time.Minute

// runWrong runs the row in this process, beside the bus of world.
func runWrong(t *testing.T, world string, row wrongInput) {
	dir := t.TempDir()
	for name, content := range row.files {
		path := filepath.Join(dir, name)
		err := makeFile(path, content)
		if err == nil && content == "!open" {
			err = os.Chmod(path, 0o777)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var args []string
	for arg := range strings.FieldsSeq(row.line) {
		args = append(args, strings.ReplaceAll(strings.ReplaceAll(arg, "·", " "), "DIR", dir))
	}
	flags := []string{"--timeout", "5s"}
	if !strings.Contains(row.line, "--data ") {
		flags = append(flags, "--data", world)
	}
	local := args[0] == "up" || len(args) > 1 && args[0] == "metrics" && args[1] == "serve"
	if !local && !strings.Contains(row.line, "--config-dir ") {
		flags = append(flags, "--config-dir", dir)
	}
	ended := make(chan result, 1)
	go func() { // ends with the process if the test fails
		if local {
			ended <- weirLocal(append(flags, args...))
			return
		}
		ended <- weir(append(flags, args...)...)
	}()
	var r result
	select {
	case r = <-ended:
	case <-time.After(wrongTimeout):
		t.Fatalf("weir %s does not end", row.line)
	}
	out := strings.ReplaceAll(r.stdout+r.stderr, dir, "DIR")
	if row.what == "" || row.where == "" || row.fix == "" {
		t.Error("the row does not say what is wrong, where, and what to do")
	}
	if r.code != row.code {
		t.Errorf("exit code %d, want %d", r.code, row.code)
	}
	for _, want := range []string{row.what, row.where, row.fix} {
		if !strings.Contains(out, want) {
			t.Errorf("the answer lacks %q", want)
		}
	}
	for _, never := range []string{"panic", "goroutine ", ".go:", "runtime error", "%!", "<nil>", "0x"} {
		if strings.Contains(out, never) {
			t.Errorf("the answer has %q", never)
		}
	}
	if len(out) > longestAnswer {
		t.Errorf("the answer has %d bytes, want at most %d", len(out), longestAnswer)
	}
	if i := strings.IndexFunc(out, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }); i >= 0 {
		t.Errorf("the answer has the control character %q", out[i])
	}
	if t.Failed() {
		t.Logf("weir %s\n%.3000s", row.line, out)
	}
}

// weirLocal runs "weir up" or "weir metrics serve" in this process, as weir-local does.
func weirLocal(args []string) result {
	var stdout, stderr bytes.Buffer
	root := &command.Root{Stdin: bytes.NewReader(nil), Stdout: &stdout, Stderr: &stderr}
	top := root.Command()
	metrics := &cobra.Command{Use: "metrics"}
	metrics.AddCommand(command.MetricsServe(func(ctx context.Context, o command.MetricsOptions) error {
		return localworld.ServeMetrics(ctx, root, o)
	}))
	top.AddCommand(metrics, command.Up(func(ctx context.Context, o command.UpOptions) error { return localworld.Up(ctx, root, o) }))
	code := command.ExitCode(root.Run(top, args))
	return result{stdout.String(), stderr.String(), code}
}

// TestWrongInputs runs all rows, and requires that each command has one.
func TestWrongInputs(t *testing.T) {
	t.Parallel()
	world := t.TempDir()
	storedApps(t, world, map[string]string{"web": webRow, "api": apiRow})
	rows := slices.Concat(wrongCommands(), wrongFlags(), wrongArguments(), wrongNames(), wrongValues(), wrongPlaces(), wrongFiles(), naiveVerbs())
	if len(rows) < 100 {
		t.Errorf("%d rows, want at least 100", len(rows))
	}
	for i, row := range rows {
		t.Run(fmt.Sprintf("%d %s", i, row.line), func(t *testing.T) {
			t.Parallel()
			runWrong(t, world, row)
		})
	}
	for path := range busCommands() {
		expectRow(t, rows, path)
	}
	for _, path := range otherCommands() {
		expectRow(t, rows, path)
	}
}

func expectRow(t *testing.T, rows []wrongInput, path string) {
	t.Helper()
	if !slices.ContainsFunc(rows, func(row wrongInput) bool { return row.line == path || strings.HasPrefix(row.line, path+" ") }) {
		t.Errorf("weir %s is missing in the table: what does it say to a wrong input?", path)
	}
}
