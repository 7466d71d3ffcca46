package rowfile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	deadline = await.Patience
	// quiet is how long a test waits to see that nothing is reported.
	quiet = 5 * settle
)

// results has the results of a Watch: passes and failures.
type results struct {
	t      *testing.T
	events chan apps.Event
	file   *File
}

// watch watches the file until the test ends.
func watchFile(t *testing.T, path string) results {
	t.Helper()
	f, err := New(Config{Path: path}, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	w := results{t: t, events: make(chan apps.Event, 1000), file: f}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- f.Watch(ctx, func(_ context.Context, ev apps.Event) error { w.events <- ev; return nil })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Watch = %v", err)
		}
	})
	return w
}

func (w results) event() apps.Event {
	w.t.Helper()
	select {
	case ev := <-w.events:
		return ev
	case <-time.After(deadline):
		w.t.Fatal("nothing is reported")
		return nil
	}
}

// pass returns the next pass as text, or why it failed.
func (w results) pass() string {
	w.t.Helper()
	var parts []string
	for {
		switch ev := w.event().(type) {
		case apps.ExpectedBegin:
			parts = nil
		case apps.ExpectedRows:
			for _, row := range ev.Rows {
				parts = append(parts, fmt.Sprintf("%s=%d", row.Name, row.Instances))
			}
		case apps.ExpectedUnreadable:
			parts = append(parts, ev.Name+"=?")
		case apps.ExpectedComplete:
			if ev.ValidFor != 3*time.Minute {
				w.t.Errorf("valid for %v", ev.ValidFor)
			}
			return strings.Join(parts, " ")
		case apps.ExpectedFailed:
			return "failed: " + ev.Why
		default:
			w.t.Errorf("got %T", ev)
		}
	}
}

func (w results) expect(want string) {
	w.t.Helper()
	for {
		got := w.pass()
		if got == want || strings.HasPrefix(want, "failed: ") && strings.HasPrefix(got, "failed: ") && strings.Contains(got, want[len("failed: "):]) {
			return
		}
		// A pass may fail, and then succeed, if the file changes during it.
		if !strings.HasPrefix(got, "failed: ") {
			w.t.Fatalf("reported %q, want %q", got, want)
		}
	}
}

func (w results) nothing() {
	w.t.Helper()
	select {
	case ev := <-w.events:
		w.t.Errorf("got %T %v, want nothing", ev, ev)
	case <-time.After(quiet):
	}
}

func text(rows ...string) string {
	var b strings.Builder
	b.WriteString("apps:\n")
	for _, row := range rows {
		name, n, _ := strings.Cut(row, "=")
		fmt.Fprintf(&b, "  %s: {instances: %s, pool: default}\n", name, n)
	}
	return b.String()
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func TestWatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "apps.yaml")
	write(t, path, text("web=2", "job=1"))
	w := watchFile(t, path)
	w.expect("web=2 job=1")

	write(t, path, text("web=3"))
	w.expect("web=3")

	write(t, path+".new", text("web=4"))
	rename(t, path+".new", path)
	w.expect("web=4")

	write(t, path, text("web=4", "bad=-1"))
	w.expect("web=4 bad=?")

	write(t, path, "apps:\n  web: {instances\n")
	w.expect("failed: " + path + ":2: ")

	write(t, path, "")
	w.expect("failed: the file is empty")

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	w.expect("failed: no such file")
	w.nothing()

	write(t, path, "apps: {}\n")
	w.expect("")

	w.file.Refresh()
	w.file.Refresh()
	w.expect("")
	w.nothing()

	write(t, path+".other", "x")
	w.nothing()
}

func TestHalfAFileIsNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "apps.yaml")
	write(t, path, text("web=2", "job=1"))
	w := watchFile(t, path)
	w.expect("web=2 job=1")

	f, err := os.Create(path) // truncates it
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w.nothing()
	if _, err := f.WriteString(text("web=2")); err != nil { // valid YAML with half of the apps
		t.Fatal(err)
	}
	w.nothing()
	if _, err := f.WriteString("  job: {instances: 7, pool: default}\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	w.expect("web=2 job=7")
}

// A volume of Kubernetes: apps.yaml -> ..data/apps.yaml, ..data -> ..1, and ..data is replaced
// by a rename.
func TestLinkIsSwapped(t *testing.T) {
	dir := t.TempDir()
	version := func(name, content string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name, "apps.yaml"), content)
		if err := os.Symlink(name, filepath.Join(dir, "..tmp")); err != nil {
			t.Fatal(err)
		}
		rename(t, filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data"))
	}
	version("..1", text("web=1"))
	path := filepath.Join(dir, "apps.yaml")
	if err := os.Symlink(filepath.Join("..data", "apps.yaml"), path); err != nil {
		t.Fatal(err)
	}
	w := watchFile(t, path)
	w.expect("web=1")
	version("..2", text("web=2"))
	if err := os.RemoveAll(filepath.Join(dir, "..1")); err != nil {
		t.Fatal(err)
	}
	w.expect("web=2")
	version("..3", text("web=3"))
	w.expect("web=3")
	write(t, filepath.Join(dir, "..3", "apps.yaml"), text("web=4")) // the link's target
	w.expect("web=4")
}

func TestFileOrFolderMayComeLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "later", "apps.json")
	w := watchFile(t, path)
	w.expect("failed: no such file")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, path, `{"apps": {"web": {"instances": 1, "pool": "default"}}}`)
	w.file.Refresh() // a missing folder cannot be watched
	w.expect("web=1")
}

func TestRowsAreReportedInSlices(t *testing.T) {
	path := filepath.Join(t.TempDir(), "apps.json")
	write(t, path, string(manyRows(1200)))
	w := watchFile(t, path)
	var sizes []int
	for {
		ev := w.event()
		if rows, ok := ev.(apps.ExpectedRows); ok {
			sizes = append(sizes, len(rows.Rows))
		}
		if _, ok := ev.(apps.ExpectedComplete); ok {
			break
		}
	}
	if fmt.Sprint(sizes) != "[500 500 200]" {
		t.Errorf("slices of %v rows, want 500, 500, 200", sizes)
	}
}

func TestOtherKindsOfFiles(t *testing.T) {
	dir := t.TempDir()
	watchFile(t, dir).expect("failed: is not a regular file")
	large := filepath.Join(dir, "large")
	write(t, large, "")
	if err := os.Truncate(large, MaxFile+1); err != nil {
		t.Fatal(err)
	}
	w := watchFile(t, large)
	w.expect("failed: is longer than")
	w.nothing()
}

func TestReadDetectsAnotherFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "apps.yaml")
	write(t, path, text("web=2"))
	seen, err := stampOf(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := read(path, seen); err != nil {
		t.Error(err)
	}
	for name, content := range map[string]string{"shorter": "apps:", "longer": text("web=2", "job=1")} {
		write(t, path, content)
		if _, err := read(path, seen); !errors.Is(err, errChanged) {
			t.Errorf("%s: %v, want errChanged", name, err)
		}
	}
	write(t, path+".new", text("web=3"))
	rename(t, path+".new", path)
	if _, err := read(path, seen); !errors.Is(err, errChanged) {
		t.Errorf("another of the same length: %v, want errChanged", err)
	}
}

func TestConfigValidate(t *testing.T) {
	for name, c := range map[string]Config{
		"no path":        {},
		"short validity": {Path: "p", ValidFor: time.Millisecond},
	} {
		if _, err := New(c, slog.Default()); err == nil {
			t.Errorf("%s: New took %+v", name, c)
		}
	}
}
