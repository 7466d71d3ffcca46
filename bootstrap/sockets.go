package bootstrap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of one read of the kernel's socket table.
const (
	maxTable     = 64 << 20 // bytes
	tablePart    = 64 << 10 // bytes of one message; the kernel sends at most 32 KiB
	tableTimeout = 2 * time.Second
)

// Request and response of sock_diag(7) for Unix sockets: struct unix_diag_req and unix_diag_msg of linux/unix_diag.h,
// in the host's byte order.
const (
	diagRequestLen = unix.SizeofNlMsghdr + 24
	diagAnswerLen  = 16 // without attributes
	diagShowName   = 1  // UDIAG_SHOW_NAME
	diagName       = 0  // UNIX_DIAG_NAME
	stateClosed    = 7  // TCP_CLOSE: not listening, may be bound
	stateListens   = 10 // TCP_LISTEN
)

// errTable: the kernel's response has an unexpected format.
var errTable = errors.New("unexpected format of the kernel's socket table")

// socket is a stream socket that holds an abstract address. An accepted socket has its listener's name, but does not
// hold the address.
type socket struct {
	inode   uint64
	listens bool
}

// sockets maps abstract addresses to the stream sockets of this network namespace that hold them. Unlike connecting,
// reading the table does not disturb a process.
type sockets map[string]socket

// readSockets reads the table over netlink. Each name has a length there. So a crafted name cannot forge another entry,
// as it could in /proc/net/unix.
func readSockets() (sockets, error) {
	found, err := readKernelTable()
	if err != nil {
		return nil, fmt.Errorf("list the sockets of this host (netlink sock_diag, of kernel module unix_diag): %w", err)
	}
	return found, nil
}

func readKernelTable() (sockets, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	limit := unix.NsecToTimeval(tableTimeout.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		return nil, err
	}
	if err := unix.Sendto(fd, diagRequest(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	found, part := sockets{}, make([]byte, tablePart)
	for read := 0; read < maxTable; {
		n, from, err := unix.Recvfrom(fd, part, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if sender, ok := from.(*unix.SockaddrNetlink); !ok || sender.Pid != 0 {
			continue // not from the kernel
		}
		read += n
		if done, err := found.addMessage(part[:n]); done || err != nil {
			return found, err
		}
	}
	return nil, fmt.Errorf("%w: more than %d bytes", errTable, maxTable)
}

// diagRequest requests the names of all sockets in the states listening and closed.
func diagRequest() []byte {
	b := make([]byte, diagRequestLen)
	order := binary.NativeEndian
	order.PutUint32(b[0:], diagRequestLen)
	order.PutUint16(b[4:], unix.SOCK_DIAG_BY_FAMILY)
	order.PutUint16(b[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	request := b[unix.SizeofNlMsghdr:]
	request[0] = unix.AF_UNIX
	order.PutUint32(request[4:], 1<<stateListens|1<<stateClosed)
	order.PutUint32(request[12:], diagShowName)
	return b
}

// addMessage adds the sockets of one message, and reports whether it was the last one.
func (s sockets) addMessage(part []byte) (done bool, err error) {
	for len(part) > 0 {
		var kind uint16
		var body []byte
		if kind, body, part, err = cutMessage(part); err != nil {
			return false, err
		}
		switch kind {
		case unix.NLMSG_DONE:
			return true, nil
		case unix.NLMSG_ERROR:
			if len(body) < 4 {
				return false, fmt.Errorf("%w: an error of %d bytes", errTable, len(body))
			}
			return false, unix.Errno(-int32(binary.NativeEndian.Uint32(body)))
		case unix.SOCK_DIAG_BY_FAMILY:
			if err := s.enter(body); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

// enter adds a socket if it holds an abstract address.
func (s sockets) enter(answer []byte) error {
	if len(answer) < diagAnswerLen {
		return fmt.Errorf("%w: a socket of %d bytes", errTable, len(answer))
	}
	kind, state, inode := answer[1], answer[2], binary.NativeEndian.Uint32(answer[4:])
	for rest := answer[diagAnswerLen:]; len(rest) > 0; {
		var attribute uint16
		var value []byte
		var err error
		if attribute, value, rest, err = cutAttribute(rest); err != nil {
			return err
		}
		abstract := attribute == diagName && len(value) > 0 && value[0] == 0
		if abstract && kind == unix.SOCK_STREAM && (state == stateListens || state == stateClosed) {
			s[string(value[1:])] = socket{uint64(inode), state == stateListens}
		}
	}
	return nil
}

// cutMessage splits off the first netlink message.
func cutMessage(b []byte) (kind uint16, body, rest []byte, err error) {
	if len(b) < unix.SizeofNlMsghdr {
		return 0, nil, nil, fmt.Errorf("%w: a message of %d bytes", errTable, len(b))
	}
	n := binary.NativeEndian.Uint32(b)
	if n < unix.SizeofNlMsghdr || uint64(n) > uint64(len(b)) {
		return 0, nil, nil, fmt.Errorf("%w: a message of %d bytes, in %d", errTable, n, len(b))
	}
	return binary.NativeEndian.Uint16(b[4:]), b[unix.SizeofNlMsghdr:n], b[aligned(int(n), len(b)):], nil
}

// cutAttribute splits off the first attribute.
func cutAttribute(b []byte) (kind uint16, value, rest []byte, err error) {
	if len(b) < unix.SizeofNlAttr {
		return 0, nil, nil, fmt.Errorf("%w: an attribute of %d bytes", errTable, len(b))
	}
	n := int(binary.NativeEndian.Uint16(b))
	if n < unix.SizeofNlAttr || n > len(b) {
		return 0, nil, nil, fmt.Errorf("%w: an attribute of %d bytes, in %d", errTable, n, len(b))
	}
	return binary.NativeEndian.Uint16(b[2:]), b[unix.SizeofNlAttr:n], b[aligned(n, len(b)):], nil
}

// aligned returns the offset after n bytes and padding, at most all.
func aligned(n, all int) int { return min((n+3)&^3, all) }

const (
	processFolder  = "/proc/[0-9]*"
	maxDescriptors = 1 << 16 // checked per process
)

// processWith returns a process for which among returns true and that has the socket open. It returns 0 if there is
// none or it cannot be inspected.
func processWith(inode uint64, among func(pid int) bool) int {
	dirs, _ := filepath.Glob(processFolder) // the pattern is valid
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
