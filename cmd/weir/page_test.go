package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
)

// TestPages types what each page with console blocks shows, in its order, and compares
// the output with the page. It types as a user of a clone with an empty home. No module
// proxy has the module of the clone.
func TestPages(t *testing.T) {
	t.Parallel()
	tree, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(tree, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	home := newStranger(t, tree)
	for _, file := range append(files, filepath.Join(tree, "README.md")) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		blocks := blocksOf(string(text))
		if filepath.Base(file) == productionPage || !slices.ContainsFunc(blocks, func(b block) bool { return b.info == "console" }) {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			installations.take(t)
			p := &page{t: t, dir: t.TempDir(), env: home.env(t), tree: tree, running: map[string]func(){}, addresses: map[string]string{}}
			for _, b := range blocks {
				p.follow(b)
			}
		})
	}
}

// block is a fenced part of a page: the text after its fence, and its lines.
type block struct {
	line  int
	info  string
	lines []string
}

// blocksOf returns the fenced parts of a page.
func blocksOf(text string) (blocks []block) {
	open := false
	for i, line := range strings.Split(text, "\n") {
		info, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && !open:
			blocks = append(blocks, block{line: i + 1, info: info})
			open = true
		case fence:
			open = false
		case open:
			b := &blocks[len(blocks)-1]
			b.lines = append(b.lines, line)
		}
	}
	return blocks
}

// page follows a page, in a folder of its own.
//
// A block "console" has commands after "$ ", each with the output that follows;
// "..." stands for any text, on a line of its own for any lines. One whose output
// ends in "^C" runs on, until the page is through, or until the page starts it
// again, perhaps with other variables. A block "LANGUAGE FILE" is
// written to that file. Other blocks are only read. The fixed ports of the pages are
// free ones.
type page struct {
	t         *testing.T
	dir       string
	env       []string          // beside the own environment
	tree      string            // of the sources
	running   map[string]func() // ends a command that runs on, by its line without variables
	addresses map[string]string // by address of the page
}

// pageAddress matches the addresses in pages of servers whose clients have them in a file.
var pageAddress = regexp.MustCompile(`127\.0\.0\.1:459\d`)

// adapt returns a text of the page with free ports.
func (p *page) adapt(text string) string {
	return pageAddress.ReplaceAllStringFunc(text, func(address string) string {
		if p.addresses[address] == "" {
			p.addresses[address] = fmt.Sprintf("127.0.0.1:%d", bustest.Ports(p.t, 1)[0])
		}
		return p.addresses[address]
	})
}

func (p *page) follow(b block) {
	p.t.Helper()
	for i, line := range b.lines {
		b.lines[i] = p.adapt(line)
	}
	kind, file, named := strings.Cut(b.info, " ")
	switch {
	case kind == "console":
		p.console(b)
	case named:
		path := filepath.Join(p.dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			p.t.Fatal(err)
		}
		if err := daemon.WriteFile(path, []byte(strings.Join(b.lines, "\n")+"\n")); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *page) console(b block) {
	p.t.Helper()
	var command string
	var want []string
	for i, line := range append(b.lines, "$ ") {
		next, ok := strings.CutPrefix(line, "$ ")
		if !ok {
			want = append(want, line)
			continue
		}
		if command != "" {
			p.command(b.line+i, command, want)
		}
		command, want = next, nil
	}
}

// command runs one, and compares its output; again and again, as a reader would,
// when it reports what is not yet there.
func (p *page) command(line int, command string, want []string) {
	p.t.Helper()
	if n := len(want); n > 0 && want[n-1] == "^C" {
		p.background(line, command, want[:n-1])
		return
	}
	eventually(p.t, fmt.Sprintf("line %d: %s\nwith the output\n%s\n", line, command, strings.Join(want, "\n")), func() error {
		out, err := offspring.CombinedOutput(p.shell(context.Background(), command))
		if !pattern(want).Match(out) {
			return fmt.Errorf("%s (%v)", out, err)
		}
		return nil
	})
}

// background starts a command that runs until the test ends.
func (p *page) background(line int, command string, want []string) {
	p.t.Helper()
	key := regexp.MustCompile(`^env \S+ `).ReplaceAllString(command, "")
	if end := p.running[key]; end != nil {
		end()
	}
	path := filepath.Join(p.dir, fmt.Sprintf("output-of-line-%d", line))
	out, err := os.Create(path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer out.Close()
	cmd := p.shell(context.Background(), "exec "+command)
	cmd.Stdout, cmd.Stderr = out, out
	if err := offspring.Start(cmd); err != nil {
		p.t.Fatal(err)
	}
	p.running[key] = sync.OnceFunc(func() {
		syscall.Kill(cmd.Process.Pid, syscall.SIGINT)
		cmd.Wait()
	})
	p.t.Cleanup(p.running[key])
	eventually(p.t, fmt.Sprintf("line %d: %s", line, command), func() error {
		said, err := os.ReadFile(path)
		if err == nil && !pattern(append(want, "...")).Match(said) {
			err = fmt.Errorf("it says %s", said)
		}
		return err
	})
}

func (p *page) shell(ctx context.Context, command string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Dir = p.dir
	cmd.WaitDelay = 10 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = slices.Concat(os.Environ(), p.env, []string{asWeir + "=1", "WEIR_DATA=" + filepath.Join(p.dir, "data")})
	return cmd
}

// pattern turns the output that a page shows into what matches it.
func pattern(want []string) *regexp.Regexp {
	var expr strings.Builder
	expr.WriteString(`(?s)\A`)
	for i, line := range want {
		if line == "..." {
			expr.WriteString(`(?:.*\n)??`)
			if i == len(want)-1 {
				expr.WriteString(`(?:.*)`)
			}
			continue
		}
		parts := strings.Split(line, "...")
		for j := range parts {
			fields := strings.Fields(parts[j])
			for k := range fields {
				fields[k] = regexp.QuoteMeta(fields[k])
			}
			lead, tail := "", ""
			if strings.HasPrefix(parts[j], " ") {
				lead = `[ \t]+`
			}
			if strings.HasSuffix(parts[j], " ") && len(fields) > 0 {
				tail = `[ \t]+`
			}
			parts[j] = lead + strings.Join(fields, `[ \t]+`) + tail
		}
		expr.WriteString(strings.Join(parts, `[^\n]*`) + `[ \t]*\n`)
	}
	expr.WriteString(`\z`)
	return regexp.MustCompile(expr.String())
}

// TestPagePattern shows what the output on a page matches.
func TestPagePattern(t *testing.T) {
	for _, c := range []struct {
		want []string
		out  string
		ok   bool
	}{
		{[]string{"a b"}, "a    b\n", true},
		{[]string{"a b"}, "ab\n", false},
		{[]string{"digest ..."}, "digest 0f3a\n", true},
		{[]string{"first", "...", "last"}, "first\none\ntwo\nlast\n", true},
		{[]string{"first", "...", "last"}, "first\nlast\n", true},
		{[]string{"first", "..."}, "first\none\ntwo", true},
		{[]string{"first"}, "first\nsecond\n", false},
		{nil, "", true},
		{nil, "something\n", false},
	} {
		if got := pattern(c.want).MatchString(c.out); got != c.ok {
			t.Errorf("pattern(%q) matches %q: %v, want %v", c.want, c.out, got, c.ok)
		}
	}
}
