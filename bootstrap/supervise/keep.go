package supervise

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"syscall"
	"time"
)

const (
	// keepLimit bounds what a keeper does after its launcher has ended.
	keepLimit = 3 * time.Second

	// keepReady is the line by which a keeper says that it listens.
	keepReady = "keeping"
)

// Keep is all that the process of Config.KeeperArgv does: in is its standard
// input, out its standard output. It returns when in ends, which is when the
// launcher's process has ended, and what the launcher left is killed: at the
// latest three seconds later, then with ErrSurvivors.
//
// It ignores SIGTERM, SIGINT, SIGHUP, SIGQUIT and SIGPIPE for the whole process.
// A line that it does not understand is skipped, and part of the error.
func Keep(in io.Reader, out io.Writer) error {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	// An error: the launcher has ended already, which is what a keeper is for.
	_, _ = fmt.Fprintln(out, keepReady)
	q, err := readRegister(in)
	if q.tag == "" {
		return errors.Join(err, errors.New("the launcher never told its tag"))
	}
	return errors.Join(err, q.clear(keepLimit, new(looks)))
}

// readRegister reads the lines of a launcher until its end. Lines that it cannot
// read do not end it: for that would kill what is still supervised.
func readRegister(in io.Reader) (quarry, error) {
	q := quarry{groups: make(map[int]group)}
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
