package signaltest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// pipeLimit bounds the wait for the last output, if a process outside the group holds the pipes.
	pipeLimit = time.Second
	// maxOutput is how much of each output is stored, in bytes.
	maxOutput = 64 << 10
	// maxLines is the number of the signal's last lines in an error.
	maxLines = 5
)

// process is a program that the kit started. Callers must call kill or stop.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr *output
	limit          time.Duration // from SIGTERM to SIGKILL
	done           chan struct{} // closed after its group has been killed and the process reaped

	mu     sync.Mutex
	reaped bool // the pid may belong to another process
}

// launch starts the target's program with additional arguments and variables.
func launch(t Target, env []string, arguments ...string) (*process, error) {
	p := &process{
		cmd: exec.Command(t.Path, t.argv(arguments...)...), stdout: newOutput(), stderr: newOutput(),
		limit: t.Limits.Exit, done: make(chan struct{}),
	}
	p.cmd.Env = append(append(withoutPlugin(os.Environ()), t.Env...), env...)
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.WaitDelay = p.stdout, p.stderr, pipeLimit
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go p.attend(started) // it ends with the process; kill and stop wait for it
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", t.Path, err)
	}
	return p, nil
}

// attend starts the process, and locks its thread until the process has ended, because Pdeathsig follows the thread.
func (p *process) attend(started chan<- error) {
	runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
	defer close(p.done)
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	for unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	p.signal(syscall.SIGKILL) // the rest of its group, whose number is reserved until the process is reaped
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaped = true
	_ = p.cmd.Wait() // ProcessState has the result
}

// signal sends a signal to the group while the group's number certainly belongs to the process.
func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = syscall.Kill(-p.cmd.Process.Pid, s) // an error means that the group is empty
	}
}

// kill kills the process and its group, and returns when they have ended.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// stop sends SIGTERM. After the limit, or when ctx ends, it kills. It reports whether the process ended by itself.
func (p *process) stop(ctx context.Context) bool {
	p.signal(syscall.SIGTERM)
	ended := p.wait(ctx, p.limit) == nil
	p.kill()
	return ended
}

// wait returns nil when the process has ended.
func (p *process) wait(ctx context.Context, limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return fmt.Errorf("it still ran after %v", limit)
	}
}

// ended reports whether the process has ended, and how.
func (p *process) ended() (how string, over bool) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.String(), true
	default:
		return "", false
	}
}

// outputError is an error with the last output of the process.
type outputError struct{ error }

func (e *outputError) Unwrap() error { return e.error }

// explain adds the process's end and its last output to an error that does not have them yet.
func (p *process) explain(err error) error {
	if _, done := errors.AsType[*outputError](err); err == nil || done {
		return err
	}
	if how, over := p.ended(); over {
		err = fmt.Errorf("%w; the signal ended: %s", err, how)
	}
	if lines := p.stderr.last(maxLines); lines != "" {
		err = fmt.Errorf("%w\nits last lines:\n    %s", err, strings.ReplaceAll(lines, "\n", "\n    "))
	}
	return &outputError{err}
}

// output stores the first bytes of a stream, and signals the end of its first line.
type output struct {
	mu    sync.Mutex
	bytes []byte
	line  chan struct{} // closed after the first line
}

func newOutput() *output { return &output{line: make(chan struct{})} }

// Write implements io.Writer. It accepts everything, and stores up to maxOutput bytes.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	had := strings.Contains(string(o.bytes), "\n")
	o.bytes = append(o.bytes, b[:min(len(b), maxOutput-len(o.bytes))]...)
	if !had && strings.Contains(string(o.bytes), "\n") {
		close(o.line)
	}
	return len(b), nil
}

// String returns the stored output.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.bytes)
}

// last returns the last n lines.
func (o *output) last(n int) string {
	lines := strings.Split(strings.TrimRight(o.String(), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
