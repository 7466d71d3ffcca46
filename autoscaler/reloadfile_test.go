package autoscaler_test

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
)

// savedFiles is the folder of a pool's files, with the watcher of bootstrap.
type savedFiles struct {
	*testing.T
	dir     string
	watcher *config.Watcher
	world   autoscaler.ReloadWorld
	running autoscaler.Config
}

// path returns the file of a text of reloads, and its content.
func (f *savedFiles) path(text string) (path, content string) {
	name, content, _ := strings.Cut(text, ":\n")
	if name == "default.yaml" {
		name = filepath.Join("here", name)
	}
	return filepath.Join(f.dir, name), content
}

func (f *savedFiles) save(text string) {
	f.Helper()
	path, content := f.path(text)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		f.Fatal(err)
	}
}

// read reads the files as bootstrap does.
func (f *savedFiles) read() (autoscaler.Config, error) {
	files, err := config.Read(f.dir, "here", "default")
	if err != nil {
		return autoscaler.Config{}, err
	}
	return readFiles(string(files.Service.Text), string(files.PoolIn.Text))
}

// follow applies each reported state of the files until it is want. Each tick after it ends no machine.
func (f *savedFiles) follow(what string, want map[string]string) {
	f.Helper()
	for !maps.Equal(f.running.Parts, want) {
		await.Value(f.T, "a report of changed files", f.watcher.Changes())
		c, err := f.read()
		if !f.watcher.Stands() || err != nil { // the next report follows, or the last configuration runs on
			continue
		}
		f.world.Adopt(false, c)
		wantNamed(f.T, what, f.running.Parts, c.Parts, f.world.Tick(what).Configuration)
		f.world.Tick(what) // saves that the event is recorded
		f.running = c
	}
	for range 3 {
		f.world.Tick(what)
	}
}

// The files of a pool change on the disk, as editors and copies change them. The watcher of bootstrap reports them, and that
// ends no machine within the grace. What a process is still writing is not read.
func TestNoSavedFileEndsAMachine(t *testing.T) {
	t.Parallel()
	whole, err := readFiles(reloadService, reloadPool)
	if err != nil {
		t.Fatal(err)
	}
	f := &savedFiles{T: t, world: autoscaler.NewReloadWorld(t, whole), running: whole, dir: t.TempDir()}
	if err := os.Mkdir(filepath.Join(f.dir, "here"), 0o700); err != nil {
		t.Fatal(err)
	}
	wholes := []string{"default.yaml:\n" + reloadPool, "weir.yaml:\n" + reloadService}
	f.save(wholes[0])
	f.save(wholes[1])
	f.watcher = config.NewWatcher(slog.New(slog.DiscardHandler), filepath.Join(f.dir, "weir.yaml"), filepath.Join(f.dir, "here", "default.yaml"))
	ctx, end := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := f.watcher.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer end()
	all := reloads()
	texts := slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(text string) bool { return maps.Equal(all[text].Parts, whole.Parts) })
	back := func(what string) {
		t.Helper()
		f.save(wholes[0])
		f.save(wholes[1])
		f.follow(what, whole.Parts)
		for f.world.Tick(what).ConfigurationHold != nil {
		}
	}
	for _, i := range []int{1, len(texts) / 2, len(texts) - 1} { // without an app; and two of the other cuts
		text := texts[i]
		f.save(text)
		f.follow(text, all[text].Parts)
		back(text)
	}
	f.save(texts[1])
	f.save(texts[2])
	f.follow("two saves", all[texts[2]].Parts)
	back("two saves")

	path, content := f.path(texts[0])
	writer, err := os.Create(path)
	if err == nil {
		_, err = writer.WriteString(content)
	}
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-f.watcher.Changes():
		t.Error("a file is reported while a process writes it")
	case <-time.After(3 * time.Second):
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	f.follow("a writer that takes its time", all[texts[0]].Parts)
	back("a writer that takes its time")
}
