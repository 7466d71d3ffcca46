package sigproto

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"syscall"
	"time"
	"unsafe"
)

// link is a connection on the autoscaler's end.
type link struct {
	conn   *net.UnixConn
	reader *bufio.Reader // over conn
	expire func()        // makes all current and later reads and writes fail
	length [4]byte

	// For clean, created once to avoid allocations:
	raw     syscall.RawConn
	peek    func(fd uintptr) // sets the following fields
	waiting [64]byte
	n       int
	err     error
}

func newLink(conn *net.UnixConn) (*link, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	l := &link{conn: conn, reader: bufio.NewReader(conn), raw: raw}
	l.expire = func() { _ = conn.SetDeadline(time.Unix(1, 0)) } // fails only on a closed connection
	l.peek = func(fd uintptr) {
		l.n, _, l.err = syscall.Recvfrom(int(fd), l.waiting[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	}
	return l, nil
}

// clean reports whether only white space waits on the connection, and the signal has not closed it.
func (l *link) clean() bool {
	buffered, err := l.reader.Peek(l.reader.Buffered())
	if err != nil || !allSpace(buffered) {
		return false
	}
	if err := l.raw.Control(l.peek); err != nil {
		return false
	}
	if l.err != nil {
		return l.err == syscall.EAGAIN
	}
	return l.n > 0 && allSpace(l.waiting[:l.n])
}

// The pause between two checks of the send queue starts at firstCheck and doubles.
const firstCheck, longestCheck = 20 * time.Microsecond, 5 * time.Millisecond

// waitRead returns when the signal has read everything that was sent. Otherwise a signal that reads the hello by a
// single recv would get the LENGTH with it. If the kernel cannot report the unread bytes, waitRead does not wait.
func (l *link) waitRead(ctx context.Context) error {
	for pause := firstCheck; ; pause = min(2*pause, longestCheck) {
		unread, err := l.unread()
		if err != nil || unread == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the signal has not read the hello: %w", context.Cause(ctx))
		case <-time.After(pause):
		}
	}
}

// unread returns how much of the sent data waits in the kernel: bytes of memory, not of the message. 0 means that the
// signal has read everything or closed the connection.
func (l *link) unread() (int, error) {
	var n int32 // int in C
	var errno syscall.Errno
	err := l.raw.Control(func(fd uintptr) {
		_, _, errno = syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCOUTQ, uintptr(unsafe.Pointer(&n)))
	})
	if err != nil {
		return 0, err
	}
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

func allSpace(b []byte) bool {
	return !slices.ContainsFunc(b, func(c byte) bool { return !isSpace(c) })
}

func (l *link) sendLength(length int) error {
	binary.BigEndian.PutUint32(l.length[:], uint32(length))
	if _, err := l.conn.Write(l.length[:]); err != nil {
		return l.readRefusal(err)
	}
	ack, err := l.reader.ReadByte()
	for err == nil && isSpace(ack) { // left over from the last response
		ack, err = l.reader.ReadByte()
	}
	if err != nil {
		return err
	}
	if n := l.reader.Buffered(); ack == ackGood && n > 0 {
		return fmt.Errorf("%w: %d more bytes with the ACK", ErrProtocol, n)
	}
	return checkACK(ack)
}

func (l *link) sendBody(body *net.Buffers) error {
	if _, err := body.WriteTo(l.conn); err != nil {
		return l.readRefusal(err)
	}
	ack, err := l.reader.ReadByte()
	if err != nil {
		return err
	}
	return checkACK(ack)
}

// readRefusal reads a refusal that the signal may have sent before it closed the connection. err is the error of a write.
func (l *link) readRefusal(err error) error {
	if !hungUp(err) {
		return err
	}
	if ack, readErr := l.reader.ReadByte(); readErr == nil && ack == ackRefused {
		return ErrRefused
	}
	return err
}

func checkACK(ack byte) error {
	switch ack {
	case ackGood:
		return nil
	case ackRefused:
		return ErrRefused
	}
	return fmt.Errorf("%w: got byte 0x%02x, want the ACK 0x01", ErrProtocol, ack)
}
