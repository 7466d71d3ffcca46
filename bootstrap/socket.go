package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/sigproto"
)

// maxRivals bounds how many others may hold addresses of one signal on a host.
const maxRivals = 9

// socket is where a signal answers: the app part that it is told, and the address
// that it makes of it.
type socket struct {
	app     string
	address string
}

// settle returns the address for the next start. It is the documented one unless
// somebody else holds that on this host, another bootstrap as a rule; then it is
// that of APP~1, or the first after it that is free. Nothing is ever started over
// a socket that is held.
func (s *signal) settle(ctx context.Context) (socket, error) {
	at := socket{s.plan.App, s.plan.Address}
	first := 0
	for n := 1; ; n++ {
		pid, held := holder(ctx, at.address)
		if !held {
			break
		}
		if n == 1 {
			first = pid
		}
		if n > maxRivals {
			return socket{}, fmt.Errorf("socket @%s is held by process %d, and so are %d others of its kind", s.plan.Address, first, maxRivals)
		}
		at.app = fmt.Sprintf("%s~%d", s.plan.App, n)
		at.address = sigproto.Address(s.plan.Namespace, s.plan.Name, at.app)
	}
	if first != 0 {
		s.config.Log.Warn("signal's socket is held by somebody else, another is taken",
			"app", s.plan.App, "holder", first, "socket", at.address)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.socket = at
	return at, nil
}

// errStranger: somebody else answers at the signal's address.
var errStranger = errors.New("another process answers at the signal's socket")

// probe reports whether what was started answers at its address.
func (s *signal) probe(ctx context.Context) error {
	s.mu.Lock()
	at := s.socket
	s.mu.Unlock()
	pid, err := peer(ctx, at.address)
	if err != nil {
		return err
	}
	group, err := unix.Getpgid(pid)
	if err != nil || group != s.process.Status().PID {
		return fmt.Errorf("%w: process %d at @%s", errStranger, pid, at.address)
	}
	return nil
}

// holder returns which process listens at an abstract address, if any does. It is
// 0 for one that cannot be told.
func holder(ctx context.Context, address string) (pid int, held bool) {
	pid, err := peer(ctx, address)
	return pid, !errors.Is(err, unix.ECONNREFUSED)
}

// peer connects to an abstract address and returns the process that listens.
func peer(ctx context.Context, address string) (int, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", "@"+address)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var errCred error
	if err := raw.Control(func(fd uintptr) {
		cred, errCred = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if errCred != nil {
		return 0, errCred
	}
	return int(cred.Pid), nil
}
