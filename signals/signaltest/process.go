package signaltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxOutput is how much of the beginning and of the end of each output is stored, in bytes.
	maxOutput = 32 << 10
	// firstLines and lastLines are the numbers of the signal's lines in an error. A program in Go that panics writes the
	// reason first, one in Python last.
	firstLines, lastLines = 5, 10
)

// process is a program that the kit started. Callers must call kill or stop.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr *output
	limit          time.Duration // from SIGTERM, or from the end of a connection, to SIGKILL; and then, until the pipes are closed
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
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.WaitDelay = p.stdout, p.stderr, p.limit
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

// explain adds the process's end and its output to an error that does not have them yet. It ends the process, so that the
// output is complete.
func (p *process) explain(err error) error {
	if _, done := errors.AsType[*outputError](err); err == nil || done {
		return err
	}
	if closed(err) { // a process that crashes closes its connections before it has ended
		_ = p.wait(context.Background(), p.limit)
	}
	if how, over := p.ended(); over {
		err = fmt.Errorf("%w; the signal ended: %s", err, how)
	}
	p.stop(context.Background())
	if lines := p.stderr.excerpt(); lines != "" {
		err = fmt.Errorf("%w\nits standard error:\n    %s", err, strings.ReplaceAll(lines, "\n", "\n    "))
	}
	return &outputError{err}
}

// closed reports whether the other end closed the connection.
func closed(err error) bool {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

// output stores the first and the last bytes of a stream, and signals the end of its first line.
type output struct {
	mu   sync.Mutex
	head []byte
	tail []byte        // after head; without what was dropped between them
	line chan struct{} // closed after the first line
}

func newOutput() *output { return &output{line: make(chan struct{})} }

// Write implements io.Writer. It accepts everything, and stores up to maxOutput bytes of both ends.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	had := bytes.Contains(o.head, []byte("\n"))
	n := min(len(b), maxOutput-len(o.head))
	o.head = append(o.head, b[:n]...)
	if !had && bytes.Contains(o.head, []byte("\n")) {
		close(o.line)
	}
	o.tail = append(o.tail, b[n:]...)
	if len(o.tail) > 2*maxOutput {
		o.tail = append([]byte(nil), o.tail[len(o.tail)-maxOutput:]...)
	}
	return len(b), nil
}

// String returns the stored output.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.head) + string(o.tail)
}

// excerpt returns the first and the last lines.
func (o *output) excerpt() string {
	lines := strings.Split(strings.TrimRight(o.String(), "\n"), "\n")
	if dropped := len(lines) - firstLines - lastLines; dropped > 1 {
		lines = slices.Replace(lines, firstLines, firstLines+dropped, "...")
	}
	return strings.Join(lines, "\n")
}
