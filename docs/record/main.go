// Command record runs "weir up" in a temporary folder, types commands beside it, and writes what both terminals show
// as an SVG picture. README.md shows the picture.
//
// Usage, in the root of the repository ("make record" builds weir and runs it):
//
//	go run ./docs/record -weir bin/weir -out docs/terminal.svg
//
// Nothing in the picture is edited: each line is output of the run, at its time. Only pauses of more than maxPause are
// shorter. It uses one goroutine to read the output of "weir up", and ends after all that it started.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	columns   = 112             // of each terminal
	maxPause  = 2 * time.Second // in the picture
	patience  = time.Minute     // for an expected line
	stopGrace = 20 * time.Second
)

// steps are the commands of the second terminal. Each waits until the first one has shown a line.
var steps = [...]struct{ until, command string }{
	{"ready in", "weir app set web --instances 2 --cpus 0.2 --mem 64 --command 'while :; do date; sleep 5; done'"},
	{"web 2/2", "weir app set web --instances 20"},
	{"pool 2 -> 5", "weir explain | head -19"},
	{"web 20/20", "weir app set web --instances 2"},
	{"pool 2 -> 2, 2 joined; web 2/2", "weir status | head -4"},
}

func main() {
	weir := flag.String("weir", "bin/weir", "the program")
	out := flag.String("out", "docs/terminal.svg", "the picture")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := record(ctx, *weir, *out); err != nil {
		fmt.Fprintf(os.Stderr, "record: %v\n", err)
		os.Exit(1)
	}
}

func record(ctx context.Context, weir, out string) error {
	weir, err := filepath.Abs(weir)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "weir-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s := &session{began: time.Now(), grown: make(chan struct{}, 1), env: append(os.Environ(),
		"PATH="+filepath.Dir(weir)+":"+os.Getenv("PATH"), "WEIR_DATA="+filepath.Join(dir, "weir"))}
	if err := s.play(ctx); err != nil {
		return err
	}
	return os.WriteFile(out, []byte(picture([]terminal{{"weir up", pace(s.up, s.typed, maxPause)}, {"another terminal", pace(s.typed, s.up, maxPause)}}, columns)), 0o644)
}

// session is one run. The mutex guards the fields below it.
type session struct {
	began time.Time
	env   []string
	grown chan struct{} // has an item after each line of "weir up"

	mu    sync.Mutex
	up    []row
	typed []row
	read  int // lines of up that an expectation has passed
}

// play runs all steps, and ends "weir up".
func (s *session) play(ctx context.Context) (err error) {
	up := s.command(ctx, "exec weir up")
	output, err := up.StdoutPipe()
	if err != nil {
		return err
	}
	up.Stderr = up.Stdout
	s.addRow(&s.up, "$ weir up")
	if err := up.Start(); err != nil {
		return fmt.Errorf("start weir up: %w", err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { s.follow(output) })
	defer func() {
		err = errors.Join(err, up.Process.Signal(os.Interrupt))
		wg.Wait()
		err = errors.Join(err, up.Wait())
	}()
	for _, step := range steps {
		if err := s.expect(ctx, step.until); err != nil {
			return err
		}
		s.addRow(&s.typed, "$ "+step.command)
		text, err := s.command(ctx, step.command).CombinedOutput()
		for line := range strings.Lines(string(text)) {
			s.addRow(&s.typed, strings.TrimRight(line, "\n"))
		}
		if err != nil {
			return fmt.Errorf("run %s: %w: %s", step.command, err, text)
		}
	}
	return nil
}

func (s *session) command(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Env = s.env
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopGrace
	return cmd
}

func (s *session) follow(output io.Reader) {
	for lines := bufio.NewScanner(output); lines.Scan(); {
		s.addRow(&s.up, lines.Text())
		select {
		case s.grown <- struct{}{}:
		default:
		}
	}
}

func (s *session) addRow(to *[]row, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*to = append(*to, row{at: time.Since(s.began), text: text})
}

// expect waits for a line of "weir up" with a text, after the line of the last expectation.
func (s *session) expect(ctx context.Context, text string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if s.shown(text) {
			return nil
		}
		select {
		case <-s.grown:
		case <-ctx.Done():
			return fmt.Errorf("weir up did not print %q within %v", text, patience)
		}
	}
}

func (s *session) shown(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range s.up[s.read:] {
		if strings.Contains(r.text, text) {
			s.read += i + 1
			return true
		}
	}
	return false
}
