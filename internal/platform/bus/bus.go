package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
)

// ErrNoBus is the error of Open if no process runs the bus of the folder, and the
// caller does not run it either.
var ErrNoBus = errors.New("no NATS server runs in the data folder")

// noBusError wraps ErrNoBus with what to do, and with all places that may name a bus.
type noBusError struct {
	data   string
	places []string
}

func (e *noBusError) Error() string {
	return fmt.Sprintf("nothing runs in data folder %s: start it with \"weir up\", or name another with --data or --nats%s",
		e.data, list(append(slices.Clip(e.places), "data folder: no NATS server runs in it")))
}

func (e *noBusError) Unwrap() error { return ErrNoBus }

// list returns the places in parentheses.
func list(places []string) string {
	if len(places) == 0 {
		return ""
	}
	return " (" + strings.Join(places, "; ") + ")"
}

// MaxPayload is the longest message, in bytes, that the server of a folder accepts. A
// configured NATS has a limit of its own, which its connection returns.
const MaxPayload = 8 << 20

const (
	joinTimeout  = 10 * time.Second       // for a server that another process starts or stops
	pollInterval = 5 * time.Millisecond   // between two reads of the folder
	flushTimeout = 500 * time.Millisecond // for unsent messages at Close
)

// Config selects a bus.
type Config struct {
	Data string // the data folder; made if it is not there
	NATS NATS   // servers that run elsewhere; the folder is then not touched. The pool of User replaces {pool} in it.
	Name string // of this client, as the server shows it
	// Places are the places that may name servers, in the order of their use, each with its content, without secrets.
	// Errors of Open list them.
	Places []string
	// User is the role of this client. The bus of a folder needs it: the server has the permissions from it. For other
	// servers it has the inbox prefix only, because their credentials are in NATS.
	User roles.User
	// InboxPrefix begins the subjects on which this client receives responses; default: that of User.
	InboxPrefix string
	// ReconnectWait is the pause between two rounds of connection attempts, plus up to a half of it; default 500 ms.
	// A large fleet of agents needs a longer one.
	ReconnectWait  time.Duration
	ConnectTimeout time.Duration // of a connection and login at each address of a server; 2 s if 0
	// ListedOnly: the client connects only to the servers of NATS, and not to others that these report.
	ListedOnly bool
	FilesEvery time.Duration // interval of reading the files of NATS; default 2 s
	// Wait: while no server of NATS is reached, Open waits and logs it, until ctx ends. For daemons, which may start
	// before the servers.
	Wait bool
	// Waiting receives the error of each failed attempt of Wait; it may be nil.
	Waiting func(error)
	Log     *slog.Logger // connection changes, and the server's own lines

	// Login changes the options of the connection last: the identity of an agent. It may be nil. Without Wait, a first
	// attempt that fails is an error all the same.
	Login func(*nats.Options) error
	// Identity is the key in weir.yaml of what Login proves, such as identity.sharedsecret. Errors name it.
	Identity string

	// Serve runs the server of the folder if no process does. The secret is new for each server, and readable for this
	// user only. Without Serve, Open only connects.
	Serve func(folder, secret string, log *slog.Logger) (Server, error)
}

// Server is the server of a folder, in this process.
type Server interface {
	URL() string
	// Roles reports whether a client authenticates as its Config.User, with a password that it derives from the secret.
	// Otherwise the secret is a token, and each client may do everything.
	Roles() bool
	Stop() // returns after the server has ended
}

// Validate returns the missing fields.
func (c Config) Validate() error {
	var problems []error
	if c.Data == "" && len(c.NATS.Servers) == 0 {
		problems = append(problems, errors.New("bus: neither a data folder nor a NATS server is given"))
	}
	for _, p := range c.NATS.Check() {
		problems = append(problems, fmt.Errorf("bus: nats.%w", p))
	}
	if c.Log == nil {
		problems = append(problems, errors.New("bus: no logger"))
	}
	return errors.Join(problems...)
}

// Bus is a connection, and the embedded server if this process runs it.
type Bus struct {
	conn   *nats.Conn
	js     jetstream.JetStream
	client *client
	server *held  // nil if it runs elsewhere
	stop   func() // ends client.follow
	wg     sync.WaitGroup
	once   sync.Once
}

// Open connects to a server of c.NATS or, without one, to the bus of the folder. If no process runs
// that bus, c.Serve runs it in this process; without c.Serve the error is ErrNoBus, at
// once. Open waits at most ten seconds for a server that starts or stops elsewhere.
func Open(ctx context.Context, c Config) (*Bus, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.NATS = c.NATS.Of(c.User.Pool)
	if len(c.NATS.Servers) > 0 {
		return c.reach(ctx)
	}
	if c.Serve == nil {
		f := folder(Folder(c.Data))
		return f.join(ctx, func(ctx context.Context) (*Bus, error) { return f.find(ctx, c) })
	}
	f, err := makeFolder(c.Data)
	if err != nil {
		return nil, err
	}
	return f.join(ctx, func(ctx context.Context) (*Bus, error) { return f.start(ctx, c) })
}

// Find is Open without c.Serve: it only connects.
func Find(ctx context.Context, c Config) (*Bus, error) {
	c.Serve = nil
	return Open(ctx, c)
}

// Conn returns the connection. It reconnects until Close, unless a server sends an error that ends it for good; see WhileOpen.
func (b *Bus) Conn() *nats.Conn { return b.conn }

// WhileOpen returns a context that ends with ctx, and when the connection is closed. A daemon runs with it and calls End: it ends
// when a server has closed the connection for good, and its service starts it again with the new limits of the server.
func (b *Bus) WhileOpen(ctx context.Context) context.Context {
	ctx, end := context.WithCancelCause(ctx)
	context.AfterFunc(b.client.open, func() { end(context.Cause(b.client.open)) })
	return ctx
}

// Replicas returns the number of copies of each new stream and bucket: the configured one, or else 3 on a cluster and
// 1 on a single server.
func (b *Bus) Replicas() int {
	switch {
	case b.client.config.NATS.Replicas > 0:
		return b.client.config.NATS.Replicas
	case b.client.clustered.Load():
		return 3
	}
	return 1
}

// Problem returns why changed files of credentials or TLS are not in use; nil if they are.
func (b *Bus) Problem() error {
	if b.client.login == nil {
		return nil
	}
	return b.client.login.trouble()
}

// Why returns why the connection is lost, in the server's words and with what to do; nil while it is connected.
func (b *Bus) Why() error {
	if b.conn.IsConnected() {
		return nil
	}
	return b.client.why(b.conn)
}

// Denied returns the subscriptions that the servers reject since the last connect: their messages do not arrive. publishes
// are messages of the last minute that they rejected, each a *Violation, or that were too long for them.
// Each list has at most 16 subjects.
func (b *Bus) Denied() (subscriptions []*Violation, publishes []error) {
	return b.client.denied.refused(time.Now())
}

// JetStream returns the streams and buckets of the bus. A call that permissions reject returns a *Violation at once.
func (b *Bus) JetStream() jetstream.JetStream { return b.js }

// Close sends pending messages, ends the connection, and stops the server if this process runs it. When Close
// returns, the folder is free. Repeated calls do nothing.
func (b *Bus) Close() {
	b.once.Do(func() {
		b.stop()
		b.wg.Wait()
		if b.conn.IsConnected() {
			// Unsent messages are lost with the connection either way.
			_ = b.conn.FlushTimeout(flushTimeout)
		}
		b.client.close(nil)
		b.conn.Close()
		if b.server != nil {
			b.server.stop()
		}
	})
}

// End is Close that returns err. If a server has closed the connection for good, it returns why and what to do, which wraps
// nats.ErrConnectionClosed, before an err with another reason.
func (b *Bus) End(err error) error {
	if b.conn.IsClosed() && b.client.open.Err() == nil {
		b.client.close(b.client.closed(b.conn)) // before the client library reports it
	}
	b.Close()
	why := context.Cause(b.client.open)
	switch {
	case errors.Is(why, context.Canceled): // by Close
		return err
	case err == nil, errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, context.Canceled):
		return why
	}
	return fmt.Errorf("%w; %w", why, err)
}

// dial connects to the configured NATS.
func (c Config) dial(ctx context.Context) (*Bus, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("connect to NATS at %s: %w", c.NATS.Show(), err)
	}
	b, err := c.connect(ctx, c.NATS.Servers, nil)
	if err != nil {
		failed := &ConnectError{Servers: c.NATS.Show(), Err: err, Places: c.Places}
		if _, ours := errors.AsType[*fileError](err); !ours {
			failed.Remedy = c.remedy(err)
		}
		return nil, failed
	}
	if err := outdated(b.conn); err != nil {
		b.Close()
		return nil, &ConnectError{Servers: c.NATS.Show(), Err: err, Remedy: fmt.Sprintf("install NATS %d.%d or later", leastMajor, leastMinor), Places: c.Places}
	}
	if err := b.misplaced(ctx, c.User); err != nil {
		b.Close()
		return nil, &ConnectError{Servers: c.NATS.Show(), Err: err, Remedy: AccountsRemedy, Places: c.Places}
	}
	return b, nil
}

// connect makes one attempt at each server; h is nil without a folder.
func (c Config) connect(ctx context.Context, servers []string, h *home) (*Bus, error) {
	cl, err := c.newClient()
	if err != nil {
		return nil, err
	}
	cl.servers, cl.home = servers, h
	timeout := cmp.Or(c.ConnectTimeout, connectTimeout)
	if deadline, ok := ctx.Deadline(); ok {
		timeout = max(min(timeout, time.Until(deadline)), time.Millisecond)
	}
	options := cl.options(servers, timeout)
	if c.Login != nil {
		if err := c.Login(&options); err != nil {
			return nil, err
		}
		options.RetryOnFailedConnect = options.RetryOnFailedConnect && c.Wait
	}
	conn, err := options.Connect()
	for n := 1; n < slowLogins && wasPinged(err) && ctx.Err() == nil; n++ {
		conn, err = options.Connect()
	}
	if err != nil {
		return nil, cl.unreached(err)
	}
	cl.conn.Store(conn)
	cl.up(conn)
	js, err := JetStream(conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	b := &Bus{conn: conn, js: js, client: cl}
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	b.stop = stop
	b.wg.Go(func() { cl.follow(following) })
	return b, nil
}

// slowLogins is how often a connection is tried whose login takes so long that the server sends a ping first.
const slowLogins = 5

// wasPinged reports whether the server sent a ping before it answered the login, as with a slow auth callout. The client library
// does not expect that.
func wasPinged(err error) bool {
	return err != nil && strings.Contains(err.Error(), "expected 'PONG', got 'PING'")
}

// redact returns a list of server URLs without secrets.
func redact(list string) string {
	var shown []string
	for raw := range strings.SplitSeq(list, ",") {
		u, err := url.Parse(strings.TrimSpace(raw))
		switch {
		case err == nil && u.Host != "":
			shown = append(shown, u.Scheme+"://"+u.Host)
		case strings.Contains(raw, "@"):
			shown = append(shown, raw[strings.LastIndex(raw, "@")+1:])
		default:
			shown = append(shown, raw)
		}
	}
	return strings.Join(shown, ",")
}

// makeFolder creates the bus folder with access for this user only.
func makeFolder(data string) (folder, error) {
	abs, err := filepath.Abs(data)
	if err != nil {
		return "", fmt.Errorf("data folder %s: %w", data, err)
	}
	f := folder(Folder(abs))
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return "", fmt.Errorf("make the data folder: %w", err)
	}
	if err := os.Chmod(string(f), 0o700); err != nil {
		return "", fmt.Errorf("make the bus private: %w", err)
	}
	return f, nil
}
