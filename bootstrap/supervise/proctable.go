package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// maxEnviron bounds how much of a process's environment is read.
const maxEnviron = 8 << 20

// usualEnviron is the size of the buffer for the files of a process, in bytes. Most environments fit.
const usualEnviron = 16 << 10

// entry holds fields of /proc/PID/stat.
type entry struct {
	pid     int
	group   int
	session int
	start   uint64 // clock ticks after boot
	dead    bool   // ended, not yet reaped by its parent
}

// readEntry reads the entry of a process.
func readEntry(pid int) (entry, error) { return readEntryInto(pid, make([]byte, maxStat)) }

func readEntryInto(pid int, buffer []byte) (entry, error) {
	stat, err := readProc(pid, "stat", buffer[:maxStat])
	if err != nil {
		return entry{}, err
	}
	return parseStat(stat)
}

// maxStat is more than the kernel writes into a stat file, in bytes: a name, and 51 numbers of at most 20 digits.
const maxStat = 2 << 10

// readProc reads a file of a process into a buffer, as far as it fits. A scan reads files of all processes of the machine, so
// readProc makes three system calls, and no garbage. os.ReadFile makes ten.
func readProc(pid int, name string, buffer []byte) ([]byte, error) {
	file, err := syscall.Open(procPath(pid, name), syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(file)
	n, err := syscall.Read(file, buffer)
	return buffer[:max(n, 0)], err
}

// userOf returns the real user id of a process; -1 if the process is gone.
func userOf(pid int) int {
	status, err := os.ReadFile(procPath(pid, "status"))
	if err != nil {
		return -1
	}
	for line := range bytes.Lines(status) {
		ids, ok := bytes.CutPrefix(line, []byte("Uid:"))
		if !ok {
			continue
		}
		if fields := bytes.Fields(ids); len(fields) > 0 {
			if user, err := strconv.Atoi(string(fields[0])); err == nil {
				return user
			}
		}
	}
	return -1
}

// Fields of /proc/PID/stat after the command, see proc(5).
const (
	statState        = 0
	statGroup        = 2
	statSession      = 3
	statFlags        = 6
	statStart        = 19
	statCodeStart    = 23
	statEnvironStart = 47
	statEnvironEnd   = 48
)

// parseStat parses /proc/PID/stat. The command, in parentheses, may contain any byte. The last closing parenthesis ends
// it.
func parseStat(stat []byte) (entry, error) {
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return entry{}, errors.New("process entry without a command")
	}
	var e entry
	var errs [4]error
	e.pid, errs[0] = strconv.Atoi(string(bytes.TrimSpace(stat[:open])))
	i := 0
	for field := range bytes.FieldsSeq(stat[end+1:]) {
		switch i {
		case statState:
			e.dead = field[0] == 'Z' || field[0] == 'X'
		case statGroup:
			e.group, errs[1] = strconv.Atoi(string(field))
		case statSession:
			e.session, errs[2] = strconv.Atoi(string(field))
		case statStart:
			e.start, errs[3] = strconv.ParseUint(string(field), 10, 64)
		}
		if i++; i > statStart {
			break
		}
	}
	if i <= statStart {
		return entry{}, fmt.Errorf("process entry of %d fields", i)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return entry{}, fmt.Errorf("process entry: %w", err)
	}
	return e, nil
}

// Pauses between readings of an environment. A process that executes another program has, for a moment, memory without
// an environment.
const (
	settlePause = time.Millisecond
	settleTries = 50
)

// readTag returns the value of TagVariable in a process's initial environment. It returns "" if the variable is not set
// or the process is gone or not readable. It waits while the process executes another program; known is false if that
// takes too long.
func readTag(pid int) (value string, known bool) { return readTagInto(pid, make([]byte, usualEnviron)) }

func readTagInto(pid int, buffer []byte) (value string, known bool) {
	for range settleTries {
		environ, err := readEnviron(pid, buffer)
		if err != nil || len(environ) > 0 {
			return tagIn(environ), true
		}
		stat, err := readProc(pid, "stat", buffer[:maxStat])
		if err != nil || hasNoEnviron(stat) {
			return "", true
		}
		<-time.After(settlePause)
	}
	return "", false
}

// readEnviron reads the environment of a process into a buffer, or into a larger one if it does not fit.
func readEnviron(pid int, buffer []byte) ([]byte, error) {
	// One call reads everything. Between two calls the process may execute another program; the second call would then
	// return the end of the first program's environment.
	for {
		environ, err := readProc(pid, "environ", buffer)
		if len(environ) < len(buffer) || len(buffer) == maxEnviron || err != nil {
			return environ, err
		}
		buffer = make([]byte, min(4*len(buffer), maxEnviron))
	}
}

// hasNoEnviron reports whether a process, by its /proc/PID/stat, has no environment and will not get one: it is ending,
// is a kernel thread, or was started without one. During exec the kernel also shows an empty environment, but the start
// of the program's code is not yet set.
func hasNoEnviron(stat []byte) bool {
	const exiting, kernelThread = 0x4, 0x200000 // PF_ flags of the kernel
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= statEnvironEnd {
		return true // no kernel with /proc/PID/environ has fewer fields
	}
	flags, err := strconv.ParseUint(string(fields[statFlags]), 10, 64)
	return err != nil || flags&(exiting|kernelThread) != 0 ||
		bytes.Equal(fields[statEnvironStart], fields[statEnvironEnd]) && string(fields[statCodeStart]) != "0" && string(fields[statEnvironEnd]) != "0"
}

// pids returns the ids of all processes.
func pids() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var all []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			all = append(all, pid)
		}
	}
	return all, nil
}

func procPath(pid int, name string) string {
	return "/proc/" + strconv.Itoa(pid) + "/" + name
}
