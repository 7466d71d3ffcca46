package sigproto

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

const (
	optPeerPidfd     = 77  // SO_PEERPIDFD, since Linux 6.5; the same on all architectures of Go except old MIPS and SPARC
	sysPidfdSendSign = 424 // pidfd_send_signal, the same on all architectures
)

// checkPeer calls check for the process that listens at the other end of conn. If the kernel supports a descriptor of
// that process, checkPeer verifies afterwards that the pid was not reused meanwhile.
func checkPeer(conn *net.UnixConn, check func(pid int) error) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("identify the listening process: %w", err)
	}
	var peer *syscall.Ucred
	var credErr, pidfdErr error
	pidfd := -1
	err = raw.Control(func(fd uintptr) {
		pidfd, pidfdErr = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, optPeerPidfd)
		peer, credErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if pidfdErr == nil && pidfd >= 0 {
		defer syscall.Close(pidfd)
	}
	if err := errors.Join(err, credErr); err != nil {
		return fmt.Errorf("identify the listening process: %w", err)
	}
	pid := int(peer.Pid)
	if err := check(pid); err != nil {
		return fmt.Errorf("check the listening process %d: %w", pid, err)
	}
	switch {
	case pid == 0: // in another pid namespace
		return nil
	case errors.Is(pidfdErr, syscall.ENOPROTOOPT): // an older kernel
		return nil
	case pidfdErr != nil:
		return fmt.Errorf("open the listening process %d: %w", pid, pidfdErr)
	}
	// Signal 0 only checks. EPERM means that the process exists.
	if _, _, errno := syscall.Syscall6(sysPidfdSendSign, uintptr(pidfd), 0, 0, 0, 0, 0); errno == syscall.ESRCH {
		return fmt.Errorf("the listening process %d has ended", pid)
	}
	return nil
}
