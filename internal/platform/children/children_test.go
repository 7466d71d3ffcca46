package children

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
)

const roleVariable = "WEIR_TEST_CHILDREN"

// TestMain makes the test binary be a parent with two processes, of which it prints the pids: one of a Starter, one that
// calls EndWithParent.
func TestMain(m *testing.M) {
	role := os.Getenv(roleVariable)
	if role == "" {
		os.Exit(m.Run())
	}
	if err := play(role); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func play(role string) error {
	if role == "child" {
		if err := EndWithParent(); err != nil {
			return err
		}
		fmt.Println("ready")
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	}
	var processes Starter
	asleep := exec.Command("sleep", "1000")
	if err := processes.Start(asleep); err != nil {
		return err
	}
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), roleVariable+"=child")
	in, err := child.StdinPipe()
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return err
	}
	fmt.Println(asleep.Process.Pid, child.Process.Pid)
	return child.Wait()
}

func TestKilledParentLeavesNoChild(t *testing.T) {
	parent := exec.Command("/proc/self/exe")
	parent.Env = append(os.Environ(), roleVariable+"=parent")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var processes Starter
	if err := processes.Start(parent); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var handles []int
	for field := range strings.FieldsSeq(line) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		handle, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		handles = append(handles, handle)
	}
	if len(handles) != 2 {
		t.Fatalf("the parent printed %q, want two pids", line)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // returns that it was killed
	for _, handle := range handles {
		await.True(t, "the end of a child", func() bool {
			n, _ := unix.Poll([]unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}, 0)
			return n == 1
		})
	}
}

// A thread that started a process may end, and the process runs on.
func TestChildOutlivesTheThread(t *testing.T) {
	var processes Starter
	cmd := exec.Command("sleep", "1000")
	thread, end := make(chan int), make(chan struct{})
	defer close(end)
	begin := func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		if unix.Gettid() == os.Getpid() {
			thread <- 0
			<-end // the main thread does not end: hold it, so that the next goroutine has another
			return
		}
		if err := processes.Start(cmd); err != nil {
			t.Error(err)
		}
		thread <- unix.Gettid()
	}
	tid := 0
	for tid == 0 {
		go begin()
		tid = <-thread
	}
	await.True(t, "the end of the thread", func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", tid))
		return err != nil
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || err.Error() != "signal: terminated" {
		t.Errorf("the process ended with %v, want SIGTERM", err)
	}
}
