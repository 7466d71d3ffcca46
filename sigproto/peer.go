package sigproto

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

const (
	optPeerPidfd     = 77  // SO_PEERPIDFD, since Linux 6.5; the same on all machines that Go runs on but old MIPS and SPARC
	sysPidfdSendSign = 424 // pidfd_send_signal, the same on all machines
)

// checkPeer has check look at the process that listens at the other end of conn.
// The kernel's descriptor of that process, where there are such, tells afterwards
// that the id still was its own while check looked.
func checkPeer(conn *net.UnixConn, check func(pid int) error) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("ask who listens: %w", err)
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
		return fmt.Errorf("ask who listens: %w", err)
	}
	pid := int(peer.Pid)
	if err := check(pid); err != nil {
		return fmt.Errorf("check process %d, which listens: %w", pid, err)
	}
	switch {
	case pid == 0: // of another pid namespace
		return nil
	case errors.Is(pidfdErr, syscall.ENOPROTOOPT): // of an older kernel
		return nil
	case pidfdErr != nil:
		return fmt.Errorf("ask for the process %d, which listens: %w", pid, pidfdErr)
	}
	// A signal of 0 only asks. EPERM says that the process is there.
	if _, _, errno := syscall.Syscall6(sysPidfdSendSign, uintptr(pidfd), 0, 0, 0, 0, 0); errno == syscall.ESRCH {
		return fmt.Errorf("process %d, which listened, is gone", pid)
	}
	return nil
}
