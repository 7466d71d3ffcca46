package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestVersionFlagPrintsTheVersion(t *testing.T) {
	t.Parallel()
	flag, command := weir("--version"), weir("version")
	if flag.code != 0 || flag.stdout != command.stdout || !strings.HasPrefix(flag.stdout, "weir ") {
		t.Errorf("weir --version: %+v, want the output of weir version: %+v", flag, command)
	}
}

// TestOutputForms prints applications in each form of --output.
func TestOutputForms(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	storedApps(t, data, map[string]string{"web": webRow, "api": apiRow})
	for line, want := range map[string]string{
		"app list -o name":    "api\nweb\n",
		"app get web -o name": "web\n",
		"app get web -o yaml": "name: web\npool: default\n",
		"app list -o yaml":    "- name: api\n  pool: default\n",
		"app list -o json":    "[\n  {\n    \"name\": \"api\"",
		"app list -o table":   "NAME  POOL",
		"version -o yaml":     "version: ",
	} {
		if r := inData(data)(strings.Fields(line)...); r.code != 0 || !strings.HasPrefix(r.stdout, want) {
			t.Errorf("weir %s: %+v, want a beginning of %q", line, r, want)
		}
	}
}

func TestEmptyListHasNoResources(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	storedApps(t, data, nil)
	for form, want := range map[string]string{"table": "No applications yet. Add one: weir app set NAME --instances 1 --command ...\n", "json": "[]\n", "yaml": "[]\n", "name": ""} {
		if r := inData(data)("app", "list", "--output", form); r.code != 0 || r.stdout != want {
			t.Errorf("weir app list --output %s: %+v, want %q", form, r, want)
		}
	}
}

// TestCompletion completes names of the bus, of files and of flags. Without a bus it is silent.
func TestCompletion(t *testing.T) {
	t.Parallel()
	data, away, configs := t.TempDir(), t.TempDir(), muteConfig(t)
	storedApps(t, data, map[string]string{"web": webRow, "api": apiRow})
	mute := muteServer(t, silent)
	for _, c := range []struct {
		flags, args []string
		want        string // the names, and cobra's directive: 4 is "no files", 0 is "files"
	}{
		{[]string{"--data", data, "--timeout", "1m"}, []string{"app", "get", ""}, "api web :4"},
		{[]string{"--data", data, "--timeout", "1m"}, []string{"app", "logs", "w"}, "web :4"},
		{[]string{"--data", data, "--timeout", "1m"}, []string{"app", "get", "web", ""}, ":4"},
		{[]string{"--data", data, "--timeout", "1m"}, []string{"pause", ""}, "default :4"},
		{[]string{"--data", data, "--timeout", "1m"}, []string{"pool", "target", "de"}, "default :4"},
		{[]string{"--data", data, "--timeout", "1m"}, []string{"pool", "target", "default", ""}, ":4"},
		{[]string{"--data", data, "--timeout", "1m"}, []string{"app", "list", "--pool", ""}, "default :4"},
		{[]string{"--data", data, "--timeout", "1m"}, []string{"app", "list", "--output", ""}, "table json yaml name :4"},
		{[]string{"--data", data, "--timeout", "1m"}, []string{"status", "--output", ""}, "table json yaml :4"},
		{[]string{"--data", data, "--timeout", "1m"}, []string{"status", "--color", ""}, "auto always never :4"},
		{[]string{"--data", data, "--timeout", "1m"}, []string{"decide", ""}, ":0"},
		{[]string{"--data", data, "--timeout", "1m"}, []string{"signal", "restart", ""}, ":4"},
		{[]string{"--data", data, "--timeout", "1m"}, []string{"node", "check", ""}, "default :4"},
		{[]string{"--data", away}, []string{"app", "get", ""}, ":4"},
		{[]string{"--data", away}, []string{"release", "show", ""}, ":4"},
		{[]string{"--data", away, "--nats", mute, "--timeout", "500ms"}, []string{"app", "get", ""}, ":4"},
	} {
		line := slices.Concat([]string{"__complete"}, c.flags, []string{"--config-dir", configs}, c.args)
		r := runInTime(t, line...)
		if got := strings.Join(strings.Fields(r.stdout), " "); r.code != 0 || got != c.want || strings.Contains(r.stderr, "weir:") {
			t.Errorf("weir %q: %+v, want %q", line, r, c.want)
		}
	}
}

// TestWatchShowsChanges runs "app list --watch" in a pipe and on a terminal: it shows a change, and SIGINT ends it with 0.
func TestWatchShowsChanges(t *testing.T) {
	t.Parallel()
	runScenes(t, map[string]func(*testing.T){
		"pipe": func(t *testing.T) {
			from, to, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { from.Close() })
			if shown := watchOneChange(t, from, to); strings.Contains(shown, "\x1b") || strings.Count(shown, "NAME") != 2 {
				t.Errorf("weir app list --watch in a pipe prints\n%q\nwant two tables", shown)
			}
		},
		"terminal": func(t *testing.T) {
			main, terminal := openTerminal(t)
			if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 100}); err != nil {
				t.Fatal(err)
			}
			if shown := watchOneChange(t, main, terminal); !strings.HasPrefix(shown, "\x1b[2J\x1b[H") || strings.Count(shown, "\x1b[2J") != 1 {
				t.Errorf("weir app list --watch on a terminal prints\n%q\nwant a cleared screen, and then changes in place", shown)
			}
		},
	})
}

// watchOneChange watches the applications while one changes, and returns what the command printed to the file.
func watchOneChange(t *testing.T, from, to *os.File) string {
	t.Helper()
	data := t.TempDir()
	storedApps(t, data, map[string]string{"web": webRow})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(os.Getenv("WEIR_TEST_BIN"), "weir"), "app", "list", "--watch", "--data", data)
	cmd.Env = append(os.Environ(), asWeir+"=1", "TERM=xterm-256color")
	cmd.Stdout, cmd.Stderr = to, to
	if err := offspring.Start(cmd); err != nil {
		t.Fatal(err)
	}
	to.Close()
	var shown strings.Builder
	reader := bufio.NewReader(io.TeeReader(from, &shown))
	until := func(text string) {
		for {
			line, err := reader.ReadString('\n')
			if strings.Contains(line, text) {
				return
			}
			if err != nil {
				t.Fatalf("weir app list --watch ends with %v before %q:\n%s", err, text, shown.String())
			}
		}
	}
	until("web ")
	if r := inData(data)("app", "set", "web", "--instances", "7123"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	until(" 7123 ")
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, reader); err != nil && !errors.Is(err, syscall.EIO) { // EIO: the terminal is closed
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("weir app list --watch ends with %v after SIGINT, want 0:\n%s", err, shown.String())
	}
	return shown.String()
}
