package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/rowfile"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
)

// newFiles returns the commands about files on a bus with the streams of the cluster "c", and what they print.
func newFiles(t *testing.T) (files, *bus.Bus, *strings.Builder) {
	t.Helper()
	s := bustest.Serve(t, server.Options{JetStream: true, StoreDir: t.TempDir()})
	b, err := bus.Find(t.Context(), bus.Config{NATS: bus.NATS{Servers: []string{s.ClientURL()}}, Name: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	bustest.Streams(t, b.JetStream(), "c", 1, "p")
	var out strings.Builder
	root := &command.Root{Stdout: &out, Stderr: io.Discard}
	root.Cluster, root.Timeout = "c", time.Minute
	return files{&commands{&connect.CLI{Root: root}}}, b, &out
}

// fileOf returns a file of n applications, with further lines.
func fileOf(n int, more ...string) string {
	var text strings.Builder
	text.WriteString("apps:\n")
	for i := range n {
		fmt.Fprintf(&text, "  app-%d: {instances: %d, pool: p, command: run}\n", i, i%5)
	}
	for _, line := range more {
		text.WriteString("  " + line + "\n")
	}
	return text.String()
}

func (cli files) decoded(t *testing.T, text string) ([]rowfile.Row, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "apps.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return cli.readFile(path)
}

// A file of 500 applications with 3 mistakes has 3 messages.
func TestLargeFileNamesItsMistakes(t *testing.T) {
	rows, err := files{&commands{&connect.CLI{Root: &command.Root{}}}}.decoded(t, fileOf(500, "web: {pool: p, command: run}", "api: {instances: 1, pool: p, command: run, cpu: 1}", "job: {instances: 1, pool: p}"))
	lines := strings.Split(fmt.Sprint(err), "\n")
	if rows != nil || command.ExitCode(err) != command.ExitUsage || len(lines) != 3 || !strings.Contains(lines[0], "apps.yaml:502: app web: instances is missing") ||
		!strings.Contains(lines[1], "apps.yaml:503: app api: cpu is unknown") || !strings.HasSuffix(lines[2], "apps.yaml:504: app job: command is missing") {
		t.Errorf("%d rows, and the mistakes\n%v", len(rows), err)
	}
}

// An interrupted command reports how many applications are applied. A repetition applies the rest.
func TestInterruptedApply(t *testing.T) {
	t.Parallel()
	cli, b, out := newFiles(t)
	rows, err := cli.decoded(t, fileOf(20))
	if err != nil {
		t.Fatal(err)
	}
	all, _, err := cli.changes(t.Context(), b, rows, false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	cli.Stdout = writerFunc(func(p []byte) {
		out.Write(p)
		if strings.HasPrefix(string(p), "app-2:") {
			interrupt()
		}
	})
	done, err := cli.writeAll(ctx, b, all)
	if want := "3 of 20 applications applied, app-3 is not: context canceled; repeat the command to apply the rest"; len(done) != 3 || err == nil || err.Error() != want {
		t.Errorf("%d are done, and the error is %v, want %s", len(done), err, want)
	}
	if want := "app-0: created: 0 instances of version "; !strings.HasPrefix(out.String(), want) || strings.Count(out.String(), "\n") != 3 {
		t.Errorf("printed\n%s\nwant three lines, the first with %q", out, want)
	}
	if all, _, err = cli.changes(t.Context(), b, rows, false); err != nil || counts(all) != "20 applications: 17 created, 0 changed, 3 unchanged, 0 deleted" {
		t.Errorf("after the interruption: %s, %v", counts(all), err)
	}
	if done, err = cli.writeAll(t.Context(), b, all); err != nil || len(done) != 20 {
		t.Errorf("the repetition ended after %d: %v", len(done), err)
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

// A row that another command changes, creates or deletes after it was read is not overwritten.
func TestApplyDoesNotOverwriteAnotherChange(t *testing.T) {
	t.Parallel()
	cli, b, _ := newFiles(t)
	row := api.App{Name: "web", Pool: "p", Instances: 1, Version: "v1", Command: "run"}
	for name, other := range map[string]func(revision uint64) error{
		"changed": func(revision uint64) error { row.Instances = 7; return writeApp(t.Context(), b, "c", row, revision) },
		"deleted": func(revision uint64) error { return eraseApp(t.Context(), b, "c", "web", revision) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := writeApp(t.Context(), b, "c", row, 0); err != nil {
				t.Fatal(err)
			}
			rows, err := cli.decoded(t, "apps: {web: {instances: 3, pool: p, command: run}}")
			if err != nil {
				t.Fatal(err)
			}
			all, _, err := cli.changes(t.Context(), b, rows, false)
			if err != nil {
				t.Fatal(err)
			}
			if err := other(all[0].revision); err != nil {
				t.Fatal(err)
			}
			if _, err := cli.writeAll(t.Context(), b, all); err == nil || !strings.Contains(err.Error(), "application web was changed by another command at the same time") {
				t.Errorf("the write returns %v", err)
			}
			if _, revision, err := readApp(t.Context(), b, "c", "web"); err == nil {
				if err := eraseApp(t.Context(), b, "c", "web", revision); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// A version that the file names stays, also with another command. Otherwise the version is that of the content. A restart, and the history,
// stay.
func TestAppliedRow(t *testing.T) {
	restarted := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	old := withVersion(api.App{}, api.App{Name: "web", Pool: "p", Instances: 2, Command: "run", CPUs: 1, Mem: 64, State: api.AppStopped, Restarted: restarted}, restarted)
	for name, tt := range map[string]struct{ row, want string }{
		"same":        {"instances: 2, command: run, cpus: 1, state: STOPPED", ""},
		"count":       {"instances: 3, command: run, cpus: 1, state: STOPPED", "instances 2 -> 3"},
		"default":     {"instances: 2, command: run, cpus: 1", `state "STOPPED" -> "STARTED"`},
		"command":     {"instances: 2, command: walk, cpus: 1, state: STOPPED", `command "run" -> "walk", version "` + old.Version + `" -> "` + "NEW" + `"`},
		"own version": {"instances: 2, command: run, cpus: 1, state: STOPPED, version: v7", `version "` + old.Version + `" -> "v7"`},
	} {
		t.Run(name, func(t *testing.T) {
			rows, err := files{&commands{&connect.CLI{Root: &command.Root{}}}}.decoded(t, "apps: {web: {pool: p, "+tt.row+"}}")
			if err != nil {
				t.Fatal(err)
			}
			next := applied(old, rows[0], restarted.Add(time.Hour))
			line := appChange{Change: changeChanged, Keys: keyChanges(old, next)}.line()
			want := ": changed: " + strings.ReplaceAll(tt.want, "NEW", next.Version)
			if line != want || !next.Restarted.Equal(restarted) {
				t.Errorf("%q, want %q; restarted %v", line, want, next.Restarted)
			}
			if newVersion := next.Version != old.Version; newVersion != (len(next.History) == 1) {
				t.Errorf("version %s after %s has the history %v", next.Version, old.Version, next.History)
			}
		})
	}
}

// A stopped application is named as such, and has ended when no instance is left.
func TestStoppedApplication(t *testing.T) {
	row := api.App{Name: "web", Pool: "p", Instances: 2, Version: "v1", State: api.AppStopped}
	if got, want := instancesLine(row), "stopped (2 instances of version v1 in pool p when started)"; got != want {
		t.Errorf("instancesLine = %q, want %q", got, want)
	}
	e := api.AppExplanation{AppSummary: api.AppSummary{Name: "web", Pool: "p", State: api.AppStarted, Count: api.AppCount{Expected: 2}}}
	for _, tt := range []struct {
		state api.AppState
		extra int
		line  string
		ended bool
	}{
		{api.AppStarted, 0, "web: stopped, 0 instances left", false}, // the harmonizer has not read the row
		{api.AppStopped, 1, "web: stopped, 1 instance left", false},
		{api.AppStopped, 0, "web: stopped, 0 instances left", true},
	} {
		e.State, e.Count.Extra = tt.state, tt.extra
		if line, ended, err := progressOf(e, row); line != tt.line || ended != tt.ended || err != nil {
			t.Errorf("progressOf = %q, %v, %v, want %q, %v", line, ended, err, tt.line, tt.ended)
		}
	}
	var out strings.Builder
	cli := &commands{&connect.CLI{Root: &command.Root{Stdout: &out}}}
	cli.printApps([]api.App{row}, nil)
	cli.printHead(e.AppSummary)
	if !strings.Contains(out.String(), " 2, stopped ") || !strings.HasSuffix(out.String(), " 0 extra, stopped\n") {
		t.Errorf("printed\n%s\nwant that it is stopped", out.String())
	}
}

// A row that no harmonizer reads is written with one warning.
func TestWarnsWithoutHarmonizer(t *testing.T) {
	t.Parallel()
	cli, b, _ := newFiles(t)
	var warned strings.Builder
	cli.Stderr = &warned
	row := api.App{Name: "web", Pool: "p", Instances: 1, Command: "run"}
	pools := readPools(t.Context(), b, cli.commands)
	pools.warn(row, false)
	pools.warn(row, false)
	if got := strings.Count(warned.String(), "weir: warning: no harmonizer runs: nothing starts"); got != 1 {
		t.Errorf("warned\n%s\nwant one line that no harmonizer runs", warned.String())
	}
}
