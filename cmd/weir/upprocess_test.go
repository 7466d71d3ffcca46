package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
)

// upProcess is a "weir up" of a test.
type upProcess struct {
	data string
	nats string // of a bus that it does not run itself; empty: its own
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended

	mu    sync.Mutex
	lines []string
}

// startUp starts "weir up" on a data folder and waits until it is ready.
func startUp(tb testing.TB, data string, args ...string) *upProcess {
	tb.Helper()
	u := launchUp(tb, data, args...)
	u.waitFor(tb, "ready in")
	return u
}

func launchUp(tb testing.TB, data string, args ...string) *upProcess {
	tb.Helper()
	return launchUpAs(tb, 0, nil, data, args...)
}

// launchUpAs starts "weir up" as a user, with more variables in its environment; 0: as the user of this process.
func launchUpAs(tb testing.TB, user int, more []string, data string, args ...string) *upProcess {
	installations.take(tb)
	tb.Helper()
	u := &upProcess{data: data, done: make(chan struct{})}
	u.cmd = exec.Command(weirOf(tb), append([]string{"up", "--data", data}, args...)...)
	u.cmd.Env = append(append(os.Environ(), asWeir+"=1"), more...)
	u.cmd.SysProcAttr = asUser(user)
	u.cmd.SysProcAttr.Setpgid = true
	out, err := u.cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	u.cmd.Stderr = u.cmd.Stdout
	if err := offspring.Start(u.cmd); err != nil {
		tb.Fatal(err)
	}
	go func() {
		defer close(u.done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			u.mu.Lock()
			u.lines = append(u.lines, lines.Text())
			u.mu.Unlock()
		}
		u.cmd.Wait()
	}()
	tb.Cleanup(func() { u.end(tb) })
	return u
}

// end interrupts it and waits until nothing of it is left.
func (u *upProcess) end(tb testing.TB) {
	tb.Helper()
	u.cmd.Process.Signal(os.Interrupt)
	eventually(tb, "the end of weir up", u.ended)
	if tb.Failed() {
		log, _ := os.ReadFile(filepath.Join(u.data, "weir.log"))
		tb.Logf("weir up said:\n%s\nits log:\n%s", u.output(), log[max(0, len(log)-8000):])
	}
	u.expectNothingLeft(tb)
}

func (u *upProcess) ended() error {
	select {
	case <-u.done:
		return nil
	default:
		return errors.New("it still runs")
	}
}

func (u *upProcess) output() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return strings.Join(u.lines, "\n")
}

func (u *upProcess) waitFor(tb testing.TB, text string) {
	tb.Helper()
	eventually(tb, fmt.Sprintf("%q from weir up", text), func() error {
		out := u.output()
		if strings.Contains(out, text) {
			return nil
		}
		if u.ended() == nil {
			tb.Fatalf("weir up ended early:\n%s", out)
		}
		return errors.New(out)
	})
}

// expectNothingLeft waits until no process has the data folder in its command
// line or its environment.
func (u *upProcess) expectNothingLeft(tb testing.TB) {
	tb.Helper()
	eventually(tb, "the end of every process of weir up", func() error {
		if left := processesOf(u.data); left != nil {
			return fmt.Errorf("left: %q", left)
		}
		return nil
	})
}

// processesOf returns the command lines of all processes, but this one, that know
// a data folder.
func processesOf(data string) []string {
	var found []string
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if filepath.Base(dir) == fmt.Sprint(os.Getpid()) {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))
		if bytes.Contains(line, []byte(data)) || bytes.Contains(env, []byte(data)) {
			found = append(found, string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	slices.Sort(found)
	return found
}

// run runs a command on the data folder.
func (u *upProcess) run(args ...string) result {
	flags := []string{"--data", u.data}
	if u.nats != "" {
		flags = append(flags, "--nats", u.nats)
	}
	return weir(append(flags, args...)...)
}

// weir runs a command on the data folder, which succeeds.
func (u *upProcess) weir(tb testing.TB, args ...string) string {
	tb.Helper()
	r := u.run(args...)
	if r.code != 0 {
		tb.Fatalf("weir %q: exit code %d, %s", args, r.code, r.stderr)
	}
	return r.stdout
}

// runJSON runs a command with --output json and decodes what it prints.
func runJSON[T any](u *upProcess, args ...string) (T, error) {
	var out T
	r := u.run(append([]string{"--output", "json"}, args...)...)
	if r.code != 0 {
		return out, errors.New(r.stderr)
	}
	data, err := seconds.Back[T]([]byte(r.stdout))
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal(data, &out)
}

// waitRunning waits until n instances of an app run, and n are expected.
func (u *upProcess) waitRunning(tb testing.TB, app string, n int) {
	tb.Helper()
	eventually(tb, fmt.Sprintf("%d running instances of %s", n, app), func() error {
		count, err := u.count(app)
		if err != nil {
			return err
		}
		if count.Running != n || count.Expected != n || count.Missing != 0 || count.Extra != 0 {
			return fmt.Errorf("%+v", count)
		}
		return nil
	})
}

func (u *upProcess) count(app string) (api.AppCount, error) {
	s, err := runJSON[api.HarmonizerStatus](u, "app", "status", app)
	if err != nil {
		return api.AppCount{}, err
	}
	return s.App.Count, nil
}

// pool waits until the last tick's view of the pool satisfies want.
func (u *upProcess) pool(tb testing.TB, what string, want func(api.PoolStatus) error) {
	tb.Helper()
	eventually(tb, what, func() error {
		s, err := runJSON[api.PoolStatus](u, "status")
		if err != nil {
			return err
		}
		if s.LastTick == nil {
			return errors.New("no tick yet")
		}
		return want(s)
	})
}

// signal returns the process of an app's signal.
func (u *upProcess) signal(app string) (api.Process, error) {
	processes, err := runJSON[[]api.Process](u, "signal", "ps")
	if err != nil {
		return api.Process{}, err
	}
	i := slices.IndexFunc(processes, func(p api.Process) bool { return p.App == app })
	if i < 0 {
		return api.Process{}, fmt.Errorf("no signal of app %s in %+v", app, processes)
	}
	return processes[i], nil
}

// runningSignal waits until the signal of an app runs: weir up may be ready before. A
// signal that does not run has the PID 0, which Kill takes for the group of this process.
func (u *upProcess) runningSignal(tb testing.TB, app string) (found api.Process) {
	tb.Helper()
	eventually(tb, "the signal of "+app, func() (err error) {
		found, err = u.signal(app)
		if err == nil && (found.State != "running" || found.PID <= 0) {
			err = fmt.Errorf("%+v", found)
		}
		return err
	})
	return found
}
