package sigproto

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
)

// PeerVariable is the environment variable with one more user id that may connect to a signal: the autoscaler's, if
// bootstrap runs the signal as another user.
const PeerVariable = "WEIR_SIGNAL_PEER"

// maxConns bounds the concurrent connections of a signal. A connection that waits for its hello takes some kilobytes,
// and at most maxHello.
const maxConns = 64

// Guard returns a listener for a Unix socket of a signal. It accepts processes of three users: this process's user,
// root, and that of [PeerVariable]. It has at most 64 connections open at a time. It closes all others before it reads
// a byte, because every process of the network namespace can connect to an abstract socket.
//
// Connections of other kinds of sockets pass unchecked.
func Guard(l net.Listener) net.Listener {
	if g, ok := l.(*guard); ok {
		return g
	}
	g := &guard{Listener: l, users: []uint32{0, uint32(os.Geteuid())}, free: make(chan struct{}, maxConns)}
	if id, err := strconv.ParseUint(os.Getenv(PeerVariable), 10, 32); err == nil {
		g.users = append(g.users, uint32(id))
	}
	return g
}

type guard struct {
	net.Listener
	users []uint32
	free  chan struct{} // holds a value per open connection
}

// Accept implements net.Listener.
func (g *guard) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if !g.admits(conn) {
			_ = conn.Close() // an error means that the peer has closed it
			continue
		}
		select {
		case g.free <- struct{}{}:
			return &guarded{Conn: conn, leave: sync.OnceFunc(func() { <-g.free })}, nil
		default:
			_ = conn.Close() // as above
		}
	}
}

// admits reports whether the process at the other end may connect.
func (g *guard) admits(conn net.Conn) bool {
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return true
	}
	user, err := PeerUser(unix)
	if err != nil {
		return false
	}
	return slices.Contains(g.users, user)
}

// guarded is a connection that counts until it is closed.
type guarded struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *guarded) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// SyscallConn implements syscall.Conn, so that a signal can check its peer.
func (c *guarded) SyscallConn() (syscall.RawConn, error) {
	raw, ok := c.Conn.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("reach the socket of a %T: %w", c.Conn, errors.ErrUnsupported)
	}
	return raw.SyscallConn()
}

// PeerUser returns the user id of the process at the other end of a Unix socket, which connected or listens.
func PeerUser(conn *net.UnixConn) (uint32, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("read the user of a peer: %w", err)
	}
	var peer *syscall.Ucred
	var errOption error
	err = raw.Control(func(fd uintptr) {
		peer, errOption = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err := errors.Join(err, errOption); err != nil {
		return 0, fmt.Errorf("read the user of a peer: %w", err)
	}
	return peer.Uid, nil
}
