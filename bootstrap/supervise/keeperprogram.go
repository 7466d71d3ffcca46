package supervise

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"
)

const (
	// keepLimit bounds how long a keeper works after its launcher has ended.
	keepLimit = 3 * time.Second

	// keepReady is the line that a keeper prints when it reads its input.
	keepReady = "keeping"
)

// Keep is the whole program of the process of Config.KeeperArgv. in is its standard input, out its standard output. in
// ends when the launcher's process has ended. Keep then kills what the launcher left and returns. After three seconds
// it returns ErrSurvivors if a process is left.
//
// It ignores SIGTERM, SIGINT, SIGHUP, SIGQUIT and SIGPIPE for the whole process. It skips invalid lines and includes
// the first one in the error.
func Keep(in io.Reader, out io.Writer) error {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	// An error means that the launcher has ended already, which a keeper must handle anyway.
	_, _ = fmt.Fprintln(out, keepReady)
	debug.FreeOSMemory() // it waits for as long as the launcher runs
	// The launcher, or an ancestor if it has ended, started before all that it launched. 0 after an error: since the boot.
	ancestor, _ := readEntry(os.Getppid())
	q, err := readRegister(in)
	q.since = ancestor.start
	if q.tag == "" {
		return errors.Join(err, errors.New("the launcher sent no tag"))
	}
	return errors.Join(err, q.clear(keepLimit, new(scans)))
}

// readRegister reads the lines of a launcher until the input ends. It continues after an invalid line: ending there
// would kill children that are still supervised.
func readRegister(in io.Reader) (survivors, error) {
	q := survivors{groups: make(map[int]group)}
	var first error
	lines := bufio.NewReaderSize(in, maxRegisterLine)
	for {
		line, tooLong, err := lines.ReadLine()
		if err != nil {
			if err != io.EOF && first == nil {
				first = fmt.Errorf("read the register: %w", err)
			}
			return q, first
		}
		for skip := tooLong; skip && err == nil; {
			_, skip, err = lines.ReadLine()
		}
		if tooLong {
			line = nil
		}
		if err := q.register(string(line)); err != nil && first == nil {
			first = err
		}
	}
}
