package control

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/weirkeeper/weirkeeper/sigproto"
)

// attachment is the runner.Runner by which go-plugin attaches to a process that
// somebody else starts and stops. To go-plugin it is started by its handshake,
// and dies by the session's end.
type attachment struct {
	prepared chan *exec.Cmd // the environment, from go-plugin
	spoken   chan greeting  // the process's first line
	closed   chan struct{}  // nothing goes on
	ended    chan struct{}  // what go-plugin takes for the process's death

	owner  int      // Config.Owner
	folder string   // before prepared: not known
	hello  greeting // before Start has returned: not known

	mu      sync.Mutex
	closing bool
	conn    net.Conn // the newest one to the plugin
}

// greeting is a checked handshake, or what is wrong with it.
type greeting struct {
	line    string
	address string
	err     error
}

func newAttachment(owner int) *attachment {
	return &attachment{
		owner:    owner,
		prepared: make(chan *exec.Cmd, 1),
		spoken:   make(chan greeting, 1),
		closed:   make(chan struct{}),
		ended:    make(chan struct{}),
	}
}

// prepare takes what go-plugin wants the process to have, and gives the folder of the socket
// to the process's user. Called once.
func (a *attachment) prepare(cmd *exec.Cmd, folder string) error {
	a.folder = folder
	if a.owner != 0 {
		if err := os.Lchown(folder, a.owner, a.owner); err != nil {
			return fmt.Errorf("give the folder of its socket to the signal's user: %w", err)
		}
	}
	a.prepared <- cmd
	return nil
}

// removals is how often a folder is emptied in which a process makes its socket at
// this very moment; it makes two files at most, and finds no folder after that.
const removals = 10

// removeFolder removes the folder of the socket. go-plugin tries to, once.
func (a *attachment) removeFolder() {
	for range removals {
		if os.RemoveAll(a.folder) == nil {
			return
		}
	}
}

// hear takes the first line of the process's standard output. Called once, after
// prepare.
func (a *attachment) hear(line []byte) {
	address, err := parseHandshake(line, a.folder)
	a.spoken <- greeting{string(line) + "\n", address, err}
}

// Start waits for the handshake.
func (a *attachment) Start(context.Context) error {
	select {
	case a.hello = <-a.spoken:
		return a.hello.err
	case <-a.closed:
		return ErrClosed
	}
}

// Stdout is the handshake, and nothing more.
func (a *attachment) Stdout() io.ReadCloser { return io.NopCloser(strings.NewReader(a.hello.line)) }

// Stderr is empty: log records do not take go-plugin's way.
func (a *attachment) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Wait waits for the end.
func (a *attachment) Wait(context.Context) error {
	<-a.ended
	return nil
}

// Kill does nothing: the process is not go-plugin's.
func (a *attachment) Kill(context.Context) error { return nil }

// Diagnose has nothing to add.
func (a *attachment) Diagnose(context.Context) string { return "" }

// Name and ID are for go-plugin's log, which nobody reads.
func (a *attachment) Name() string { return "signal" }
func (a *attachment) ID() string   { return "signal" }

// PluginToHost implements runner.AddrTranslator: both see the same files.
func (a *attachment) PluginToHost(network, address string) (string, string, error) {
	return network, address, nil
}

// HostToPlugin implements runner.AddrTranslator.
func (a *attachment) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

// dial connects to the plugin, in place of go-plugin's own dialer: so that there
// is somebody who can end it.
func (a *attachment) dial(ctx context.Context, _ string) (net.Conn, error) {
	info, err := os.Lstat(a.hello.address)
	if err != nil {
		return nil, err
	}
	if info.Mode().Type() != os.ModeSocket {
		return nil, fmt.Errorf("%s is %s, not a socket", a.hello.address, info.Mode())
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", a.hello.address)
	if err == nil {
		err = a.checkOwner(conn)
	}
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closing {
		conn.Close()
		return nil, ErrClosed
	}
	a.conn = conn
	return conn, nil
}

// checkOwner closes conn and returns an error if the process that listens is not one of the
// signal's user. The signal can put a link to another socket into its folder, which this
// process may be allowed to use.
func (a *attachment) checkOwner(conn net.Conn) error {
	if a.owner == 0 {
		return nil
	}
	user, err := sigproto.PeerUser(conn.(*net.UnixConn)) // by the network "unix"
	if err == nil && user != uint32(a.owner) {
		err = fmt.Errorf("%s leads to a process of user %d, want one of the signal's user %d", a.hello.address, user, a.owner)
	}
	if err != nil {
		conn.Close()
	}
	return err
}

// close makes everything that waits for the process return.
func (a *attachment) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closing = true
	close(a.closed)
	if a.conn != nil {
		a.conn.Close()
	}
}
