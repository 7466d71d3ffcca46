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

// attachment is the runner.Runner by which go-plugin attaches to a process that another component starts and stops. For
// go-plugin, the handshake is the process's start, and the end of the session is its death.
type attachment struct {
	prepared   chan *exec.Cmd     // the environment, from go-plugin
	handshakes chan handshakeLine // the process's first line
	closed     chan struct{}      // closed when the session closes
	ended      chan struct{}      // closed when go-plugin should consider the process dead

	owner  int           // Config.Owner
	folder string        // set before prepared receives
	hello  handshakeLine // set when Start returns

	mu      sync.Mutex
	closing bool
	conn    net.Conn // the latest one to the plugin
	refused error    // why the handshake is rejected; nil: it is not, or has not arrived
}

// handshake is a checked handshake line, or the error in it.
type handshakeLine struct {
	line    string
	address string
	err     error
}

func newAttachment(owner int) *attachment {
	return &attachment{
		owner:      owner,
		prepared:   make(chan *exec.Cmd, 1),
		handshakes: make(chan handshakeLine, 1),
		closed:     make(chan struct{}),
		ended:      make(chan struct{}),
	}
}

// prepare receives the command that go-plugin prepared, and changes the owner of the socket's folder to the process's
// user. Call it once.
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

// removals is how often removeFolder tries to empty a folder in which a process is creating its socket. A process
// creates at most two files; then the folder is missing.
const removals = 10

// removeFolder removes the folder of the socket. go-plugin tries that only once.
func (a *attachment) removeFolder() {
	for range removals {
		if os.RemoveAll(a.folder) == nil {
			return
		}
	}
}

// receive accepts the first line of the process's standard output. Call it once, after prepare.
func (a *attachment) receive(line []byte) {
	address, err := parseHandshake(line, a.folder)
	a.mu.Lock()
	a.refused = err
	a.mu.Unlock()
	a.handshakes <- handshakeLine{string(line) + "\n", address, err}
}

// Start waits for the handshake.
func (a *attachment) Start(context.Context) error {
	select {
	case a.hello = <-a.handshakes:
		return a.hello.err
	case <-a.closed:
		return errClosed
	}
}

// refusal returns why the handshake is rejected, at once after receive. It returns nil before.
func (a *attachment) refusal() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused
}

// Stdout returns the handshake line only.
func (a *attachment) Stdout() io.ReadCloser { return io.NopCloser(strings.NewReader(a.hello.line)) }

// Stderr is empty: log records do not pass through go-plugin.
func (a *attachment) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Wait waits until the session has closed.
func (a *attachment) Wait(context.Context) error {
	<-a.ended
	return nil
}

// Kill does nothing: go-plugin does not own the process.
func (a *attachment) Kill(context.Context) error { return nil }

// Diagnose returns no information.
func (a *attachment) Diagnose(context.Context) string { return "" }

// Name and ID appear only in go-plugin's discarded log.
func (a *attachment) Name() string { return "signal" }
func (a *attachment) ID() string   { return "signal" }

// PluginToHost implements runner.AddrTranslator: both ends use the same file system.
func (a *attachment) PluginToHost(network, address string) (string, string, error) {
	return network, address, nil
}

// HostToPlugin implements runner.AddrTranslator.
func (a *attachment) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

// dial connects to the plugin instead of go-plugin's dialer, so that close can close the connection.
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
		return nil, errClosed
	}
	a.conn = conn
	return conn, nil
}

// checkOwner closes conn and returns an error unless the listening process runs as the signal's user. The signal could
// put a link to another socket, which this process may use, into its folder.
func (a *attachment) checkOwner(conn net.Conn) error {
	if a.owner == 0 {
		return nil
	}
	user, err := sigproto.PeerUser(conn.(*net.UnixConn)) // the network "unix" has this type
	if err == nil && user != uint32(a.owner) {
		err = fmt.Errorf("%s leads to a process of user %d, want one of the signal's user %d", a.hello.address, user, a.owner)
	}
	if err != nil {
		conn.Close()
	}
	return err
}

// close unblocks everything that waits for the process.
func (a *attachment) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closing = true
	close(a.closed)
	if a.conn != nil {
		a.conn.Close()
	}
}
