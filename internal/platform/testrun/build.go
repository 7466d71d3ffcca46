package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
)

const module = "github.com/weirkeeper/weirkeeper/"

// pkg is a package with tests.
type pkg struct {
	path, dir string
	module    string   // folder of its module
	deps      []string // of the test binary: packages outside the standard library
	race      bool
	binary    string // set by compile
}

// list returns the packages of a module with tests.
func list(ctx context.Context, module string, patterns []string) ([]*pkg, error) {
	serial, err := withoutGoroutines()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-test", "-json=ImportPath,Dir,ForTest,Deps,TestGoFiles,XTestGoFiles"}, patterns...)...)
	cmd.Dir, cmd.Stderr = module, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list packages: %w", err)
	}
	var found []*pkg
	deps := map[string][]string{} // of the test binaries
	for lines := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Dir, ForTest        string
			Deps, TestGoFiles, XTestGoFiles []string
		}
		err := lines.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if name, binary := strings.CutSuffix(p.ImportPath, ".test"); binary {
			deps[name] = slices.DeleteFunc(p.Deps, func(d string) bool { // no variant for a test, and not of the standard library
				first, _, _ := strings.Cut(d, "/")
				return strings.ContainsAny(d, " [") || !strings.Contains(first, ".")
			})
		} else if p.ForTest == "" && len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 {
			found = append(found, &pkg{path: p.ImportPath, dir: p.Dir, module: module, race: !serial[p.ImportPath]})
		}
	}
	for _, p := range found {
		p.deps = deps[p.path]
	}
	return found, nil
}

// withoutGoroutines returns the packages whose tests need no race detector: the pure ones in the table of internal/arch,
// and tests that only read files and start programs, or measure their memory.
func withoutGoroutines() (map[string]bool, error) {
	serial := map[string]bool{module + "internal/arch": true, module + "deploy/packages": true, module + "kubernetes/sizetest": true}
	table, err := os.ReadFile("internal/arch/table_test.go")
	if err != nil {
		return nil, err
	}
	list := regexp.MustCompile(`(?s)\nvar pure = \[\]string\{(.*?)\n\}`).FindSubmatch(table)
	if list == nil {
		return nil, errors.New("internal/arch/table_test.go has no list of pure packages")
	}
	for _, name := range regexp.MustCompile(`"([^"]+)"`).FindAllSubmatch(list[1], -1) {
		serial[module+string(name[1])] = true
	}
	return serial, nil
}

// build makes what the tests need: programs of other projects beside the test binaries, because most of those are
// downloaded, and then those of this module.
func build(ctx context.Context, all string, found []*pkg) (err error) {
	needs := map[string]bool{}
	for _, p := range found {
		for _, needed := range append(p.deps, p.path) {
			needs[strings.TrimPrefix(needed, module)] = true
		}
	}
	var others sync.WaitGroup
	var mu sync.Mutex
	failed := func(problem error) {
		mu.Lock()
		defer mu.Unlock()
		err = errors.Join(err, problem)
	}
	prepare := func(p testprograms.Program) {
		began := time.Now()
		if _, problem := p.Make(ctx); problem != nil {
			failed(fmt.Errorf("prepare %s: %w", p.Name, problem))
		} else if took := since(began); took > 0 {
			fmt.Printf("prepared %s in %v\n", p.Name, took)
		}
	}
	for _, p := range testprograms.Programs() {
		if needs[p.For] {
			others.Go(func() { prepare(p) })
		}
	}
	failed(compileAll(ctx, all, found))
	failed(os.MkdirAll(os.Getenv(testprograms.FolderVariable), 0o755))
	began := time.Now()
	n, problem := testprograms.BuildPlain(ctx, func(pkg string) bool { return needs[pkg] })
	if failed(problem); problem == nil && n > 0 {
		fmt.Printf("built %d tests that others run in %v\n", n, since(began))
	}
	for _, p := range testprograms.OwnPrograms() { // most of their time one processor compresses or links
		if needs[p.For] && ctx.Err() == nil {
			others.Go(func() { prepare(p) })
		}
	}
	others.Wait()
	return err
}

// batch is a call of the Go command.
type batch struct {
	module string
	race   bool
	number int // of the call, since the names of the binaries in a folder differ
}

// compileAll compiles the test binaries.
func compileAll(ctx context.Context, all string, found []*pkg) error {
	var order []batch
	batches := map[batch][]*pkg{}
	for _, p := range found {
		b := batch{module: p.module, race: p.race}
		for hasName(batches[b], path.Base(p.path)) {
			b.number++
		}
		if batches[b] == nil {
			order = append(order, b)
		}
		batches[b] = append(batches[b], p)
	}
	for _, b := range order {
		kind := "plain"
		if b.race {
			kind = "raced"
		}
		out := filepath.Join(all, b.module, fmt.Sprintf("%s-%d", kind, b.number))
		if err := compile(ctx, b, out, batches[b]); err != nil {
			return err
		}
	}
	return nil
}

func hasName(packages []*pkg, name string) bool {
	for _, p := range packages {
		if path.Base(p.path) == name {
			return true
		}
	}
	return false
}

// compile compiles the test binaries of a batch into a folder, and prints its progress.
func compile(ctx context.Context, b batch, out string, packages []*pkg) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	flags, env, what := []string(nil), "CGO_ENABLED=0", "tests"
	if b.race {
		// The race detector skips compress/flate: it starts no goroutine, and compressing releases took half of the time of
		// "weir up".
		flags, env, what = []string{"-race", "-gcflags=compress/flate=-race=false"}, "CGO_ENABLED=1", "tests with the race detector"
	}
	var all, deps []string
	for _, p := range packages {
		p.binary = filepath.Join(out, path.Base(p.path)+".test")
		all, deps = append(all, p.path), append(deps, p.deps...)
	}
	slices.Sort(deps)
	deps = slices.Compact(deps)
	began, used := time.Now(), time.Duration(0)
	run := func(args ...string) error {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir, cmd.Env = b.module, append(os.Environ(), env, testprograms.CompilerMemory, testprograms.CompilerGC)
		stop := progress(func(compiled int) {
			fmt.Printf("building %s: %d packages compiled, %d of %d linked, %v\n", what, compiled, fresh(packages, began), len(packages), since(began))
		}, cmd)
		defer stop()
		err := cmd.Run()
		used += processorTime(cmd)
		return err
	}
	var err error
	if len(deps) > 0 {
		err = run(slices.Concat([]string{"build", "-v"}, flags, deps)...) // it prints each package that it compiles
	}
	if err == nil {
		err = run(slices.Concat([]string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", out + "/"}, flags, all)...)
	}
	if err != nil {
		return fmt.Errorf("build %s: %w", what, err)
	}
	fmt.Printf("built %d %s in %v, %v of processor time\n", len(packages), what, since(began), used.Round(time.Second))
	return nil
}

// fresh counts the packages whose test binary was linked, or found current, since then.
func fresh(packages []*pkg, since time.Time) (n int) {
	for _, p := range packages {
		if info, err := os.Stat(p.binary); err == nil && info.ModTime().After(since) {
			n++
		}
	}
	return n
}

// progress counts the names of packages in the output of a command, prints its other lines, and calls show periodically
// until stop.
func progress(show func(lines int), cmd *exec.Cmd) (stop func()) {
	counter := &lineCounter{}
	cmd.Stdout, cmd.Stderr = os.Stdout, counter
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(20 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				show(counter.count())
			case <-done:
				return
			}
		}
	})
	return func() { close(done); wg.Wait() }
}

// lineCounter counts lines that are the name of a package, and prints all others.
type lineCounter struct {
	mu    sync.Mutex
	rest  []byte
	names int
}

func (c *lineCounter) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rest = append(c.rest, p...)
	for {
		line, rest, whole := bytes.Cut(c.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		c.rest = rest
		if bytes.ContainsAny(line, " \t:") {
			fmt.Fprintf(os.Stderr, "%s\n", line)
		} else {
			c.names++
		}
	}
}

func (c *lineCounter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.names
}
