// Package children starts the processes of tests, so that a killed test binary leaves none.
//
//	var processes children.Starter
//
//	err := processes.Start(cmd) // instead of cmd.Start()
//
// The kernel kills such a process when the thread that started it ends. Threads of a test binary end before it, for
// example those of a launcher. So one thread, which never ends, starts all processes.
//
// A test binary that other programs start as a process calls [EndWithParent]. Everything is safe for concurrent use.
package children

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Starter starts processes. Its zero value is ready.
type Starter struct {
	first    sync.Once
	requests chan request
}

// Start starts a process, which ends with this one. It sets Pdeathsig in the attributes of the process.
func (s *Starter) Start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	s.first.Do(func() {
		s.requests = make(chan request)
		go serve(s.requests) // as long as this process
	})
	started := make(chan error)
	s.requests <- request{cmd, started}
	return <-started
}

// CombinedOutput runs a process and returns its output and errors.
func (s *Starter) CombinedOutput(cmd *exec.Cmd) ([]byte, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := s.Start(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	return out.Bytes(), err
}

// request is a process to start.
type request struct {
	cmd     *exec.Cmd
	started chan<- error
}

func serve(requests <-chan request) {
	runtime.LockOSThread()
	for r := range requests {
		r.started <- r.cmd.Start()
	}
}

// EndWithParent kills this process when its parent ends, unless it is stopped.
func EndWithParent() error {
	parent, err := unix.PidfdOpen(unix.Getppid(), 0)
	if err != nil {
		return fmt.Errorf("open the parent process: %w", err)
	}
	go func() { // as long as this process
		for {
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(parent), Events: unix.POLLIN}}, -1)
			if !errors.Is(err, unix.EINTR) {
				_ = unix.Kill(unix.Getpid(), unix.SIGKILL)
			}
		}
	}()
	return nil
}
