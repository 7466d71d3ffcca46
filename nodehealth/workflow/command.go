package workflow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/nodehealth"
)

const (
	maxErrors = 4 << 10 // bytes of standard error that are kept
	// pipesOpen is how long a program that left the group may hold our pipes.
	pipesOpen = time.Second
)

func checkCommand(argv []string, wrong func(path string, err error)) {
	if len(argv) == 0 || argv[0] == "" {
		wrong("argv", errors.New("is missing: want the program and its arguments"))
		return
	}
	if strings.Contains(argv[0], "/") && !filepath.IsAbs(argv[0]) {
		wrong("argv[0]", fmt.Errorf("is %.100q: want an absolute path, or a name in PATH", argv[0]))
	} else if _, err := exec.LookPath(argv[0]); err != nil {
		wrong("argv[0]", err)
	}
	for i, text := range argv[1:] {
		_, err := render(text, nodehealth.Input{})
		wrong(fmt.Sprintf("argv[%d]", i+1), err)
	}
}

// command runs a program to its end or that of ctx, and leaves nothing of its group.
func command(ctx context.Context, argv []string, body []byte) (nodehealth.Result, error) {
	out, errs := &head{limit: maxAnswer}, &head{limit: maxErrors}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = "/", environment()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(body), out, errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = pipesOpen
	if err := toItsEnd(ctx, cmd); err != nil {
		return nodehealth.Result{}, err
	}
	said := answer{text: out.kept.Bytes(), cut: out.cut}
	if state := cmd.ProcessState; !state.Success() {
		said.failure = fmt.Sprintf("it ended with %v: %s", state, errs.kept.String())
	}
	return said.result(), nil
}

// toItsEnd starts a program and waits for its end, or kills it when ctx ends first.
// Its group is killed either way, while its first process still holds the number.
func toItsEnd(ctx context.Context, cmd *exec.Cmd) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	started, ended := make(chan error, 1), make(chan struct{})
	wg.Go(func() {
		defer close(ended)
		// The parent's death, of which the child is told, is that of the thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			awaitExit(cmd.Process.Pid)
		}
	})
	if err := <-started; err != nil {
		return err
	}
	late := false
	select {
	case <-ended:
	case <-ctx.Done():
		late = true
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // fails only when there is nobody
	<-ended
	err := cmd.Wait()
	if late {
		return ctx.Err()
	}
	if _, exit := errors.AsType[*exec.ExitError](err); exit || errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	return err
}

// awaitExit returns once the process has ended, and leaves it to be waited for.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// environment is the little of ours that a command gets.
func environment() []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "LANG", "TZ"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// head keeps the first bytes of what is written, and takes the rest.
type head struct {
	limit int
	kept  bytes.Buffer
	cut   bool
}

func (h *head) Write(p []byte) (int, error) {
	room := h.limit - h.kept.Len()
	if len(p) > room {
		h.cut = true
	}
	h.kept.Write(p[:min(room, len(p))])
	return len(p), nil
}
