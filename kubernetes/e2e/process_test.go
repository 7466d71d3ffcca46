//go:build plane

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/children"
)

// programs is the folder with the programs, as "make test-kubernetes" builds them.
const programs = "../../bin"

var starter children.Starter

// program returns the path of a program.
func program(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(programs, name))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("%v: run these tests with \"make test-kubernetes\", which builds it", err)
	}
	return path
}

// process is a program that runs.
type process struct {
	name  string
	cmd   *exec.Cmd
	out   *lines
	ended chan struct{}
}

// lines are the output of a process.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// run starts a process. It is killed with the test, and its last lines are in the log of a test that failed.
func run(t *testing.T, name string, env []string, argv ...string) *process {
	t.Helper()
	p := &process{name: name, cmd: exec.Command(argv[0], argv[1:]...), out: &lines{}, ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = p.out, p.out, append(os.Environ(), env...)
	if err := starter.Start(p.cmd); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // a test ends it by a signal
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			text := p.out.String()
			t.Logf("%s:\n%s", name, text[max(0, len(text)-6000):])
		}
	})
	return p
}

// kill ends a process at once.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// command runs a command, and returns its output.
func command(t testing.TB, env []string, argv ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute) // also while a test ends
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	out, err := starter.CombinedOutput(cmd)
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", argv[0], err, out)
	}
	return string(out), err
}
