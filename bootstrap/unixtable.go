package bootstrap

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// maxUnixTable bounds what is read of the kernel's table, in bytes.
const maxUnixTable = 64 << 20

// Where the kernel shows its Unix sockets, and what its columns say. A socket that
// was accepted has its listener's name, but does not hold it: it is connected.
const (
	unixTablePath  = "/proc/self/net/unix"
	unixColumns    = 7 // of a line before the name
	unixStream     = "0001"
	unixHolds      = "01" // bound, not connected
	unixListens    = "00010000"
	columnFlags    = 3
	columnType     = 4
	columnState    = 5
	columnInode    = 6
	processFolder  = "/proc/[0-9]*"
	maxDescriptors = 1 << 16 // of one process that are looked at
)

// unixTable is the kernel's table of Unix sockets, as text. Reading it disturbs
// nobody, as connecting to a socket to see whether somebody listens would.
type unixTable []byte

func readUnixTable() (unixTable, error) {
	f, err := os.Open(unixTablePath)
	if err != nil {
		return nil, fmt.Errorf("read the sockets of this host: %w", err)
	}
	defer f.Close()
	table, err := io.ReadAll(io.LimitReader(f, maxUnixTable))
	if err != nil {
		return nil, fmt.Errorf("read the sockets of this host: %w", err)
	}
	return table, nil
}

// holder returns the inode of the stream socket that holds an abstract address,
// and whether it listens; ok is false if the address is free.
func (t unixTable) holder(address string) (inode uint64, listens, ok bool) {
	name := append([]byte{' ', '@'}, address...)
	for line := range bytes.Lines(t) {
		line = bytes.TrimSuffix(line, []byte{'\n'})
		if !bytes.HasSuffix(line, name) {
			continue
		}
		columns := bytes.Fields(line[:len(line)-len(name)])
		if len(columns) != unixColumns || string(columns[columnType]) != unixStream || string(columns[columnState]) != unixHolds {
			continue
		}
		inode, err := strconv.ParseUint(string(columns[columnInode]), 10, 64)
		if err != nil {
			continue
		}
		return inode, string(columns[columnFlags]) == unixListens, true
	}
	return 0, false, false
}

// groupHas reports whether a process of the group has the socket open; that of
// the group's leader, as a rule.
func groupHas(group int, inode uint64) bool {
	if hasSocket(group, inode) {
		return true
	}
	return processWith(inode, func(pid int) bool { return pid != group && groupOf(pid) == group }) != 0
}

// processWith returns a process that has the socket open, of those that among
// names; 0 if there is none, or if it may not be looked at.
func processWith(inode uint64, among func(pid int) bool) int {
	dirs, _ := filepath.Glob(processFolder) // the pattern is good
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err == nil && among(pid) && hasSocket(pid, inode) {
			return pid
		}
	}
	return 0
}

// hasSocket reports whether a process has the socket open.
func hasSocket(pid int, inode uint64) bool {
	folder := fmt.Sprintf("/proc/%d/fd", pid)
	dir, err := os.Open(folder)
	if err != nil {
		return false
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(maxDescriptors)
	want := fmt.Sprintf("socket:[%d]", inode)
	for _, name := range names {
		if link, err := os.Readlink(folder + "/" + name); err == nil && link == want {
			return true
		}
	}
	return false
}
