package agent

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
)

// A copy writes to a pipe. If its output were the file, a copy that opens /dev/stderr to write would empty the file.
// A process of its own, the writer, copies from the pipe to the file. It outlives the agent as the copy does. It ends
// when no process has the other end of the pipe open, so it needs no record. It holds a lock of the file until then.

// writerProgram is the program of a writer, for /bin/sh -c. If the file cannot be written, for example because the disk
// is full, it drops the output until it can write a line about that, at least for a second. So the copy is neither
// blocked nor ended.
const writerProgram = `trap "" TERM INT HUP QUIT
note() { printf '\n[output dropped: its file could not be written]\n'; }
until cat; do
	until timeout -s KILL 1 cat >/dev/null && { note; :; } || note; do :; done
done`

// writerSuffix follows the tag of a kept copy in the tag of its writer. It has letters of a tag only.
const writerSuffix = "WRITER"

const (
	writerLimit = 2 * time.Second      // how long a writer may run after the end of its copy
	writerPoll  = 2 * time.Millisecond // between two tries to lock the file
)

// startWriter starts the writer of a copy, which appends to file. It returns the end of the pipe for the copy.
func startWriter(ctx context.Context, l *supervise.Launcher, name, tag string, file *os.File) (pipe *os.File, err error) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = null.Close() }() // nothing is buffered
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, err
	}
	out, pipe, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }() // the writer has its own
	_, err = l.Start(ctx, supervise.Spec{
		Name: "writer of " + name, Argv: []string{"/bin/sh", "-c", writerProgram, "weir-writer", name},
		Env: supervise.PlainEnvironment(os.Environ()), Dir: "/", Stdin: out, Stdout: file, Stderr: null,
		Detached: tag, NoCgroup: true, // the end of the copy's cgroup must not end it
	})
	if err != nil {
		_ = pipe.Close() // nothing was written
		return nil, err
	}
	return pipe, nil
}

// writerTag returns the tag for the writer of a copy.
func writerTag(c *copyOf) string {
	if c.tag == "" {
		return supervise.NewTag()
	}
	return c.tag + writerSuffix
}

// awaitWriter waits until no writer has the file of an output. It returns false if one has it after limit: a process
// that has escaped from its copy holds the pipe.
func awaitWriter(path string, limit time.Duration) bool {
	f, _, err := openOutput(path, os.O_RDONLY)
	if err != nil {
		return true // the next access to the file returns the error
	}
	defer func() { _ = f.Close() }() // only read
	expired := time.NewTimer(limit)
	defer expired.Stop()
	again := time.NewTicker(writerPoll)
	defer again.Stop()
	for unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == unix.EWOULDBLOCK {
		select {
		case <-expired.C:
			return false
		case <-again.C:
		}
	}
	return true
}
