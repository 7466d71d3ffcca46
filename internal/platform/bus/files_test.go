package bus

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A process that may open no more files is named as such, and one that may is not.
func TestOutOfFiles(t *testing.T) {
	child := exec.Command("cat") // it waits for its input
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	// An echo shows that the child has loaded its libraries, and opens no more files.
	if _, err := io.WriteString(in, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := child.Wait(); err != nil {
			t.Error(err)
		}
	})
	if got := outOfFiles(child.Process.Pid); got != "" {
		t.Errorf("with its usual limit: %q", got)
	}
	// It has its three standard streams at least.
	if err := unix.Prlimit(child.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: 3}, nil); err != nil {
		t.Fatal(err)
	}
	if got := outOfFiles(child.Process.Pid); !strings.Contains(got, "of at most 3") || !strings.Contains(got, "ulimit -n") {
		t.Errorf("with a limit of 3: %q, want the limit and how to raise it", got)
	}
	if got := outOfFiles(os.Getpid()); got != "" {
		t.Errorf("of this process: %q", got)
	}
}
