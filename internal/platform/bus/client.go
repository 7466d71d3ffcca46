package bus

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/time/rate"
)

const (
	connectTimeout = 2 * time.Second        // for each address of a server
	reconnectWait  = 500 * time.Millisecond // between two rounds of connection attempts; see Config.ReconnectWait
	pingInterval   = 2 * time.Second        // two unanswered ones end a connection, after 6 s at most
	pingsOut       = 2
	retryLogged    = 30 * time.Second // between two log lines about failed attempts
)

// client is what nats.go calls for one connection. It is the connection's dialer: nats.go dials with the connection
// locked, before it reads the options of the attempt.
type client struct {
	config    Config
	login     *login // nil: the block names no files
	denied    *denials
	servers   []string                  // of the first connect
	home      *home                     // nil: the servers of NATS
	conn      atomic.Pointer[nats.Conn] // nil during the first attempt
	clustered atomic.Bool
	retried   rate.Sometimes
	dialer    net.Dialer
	undialed  atomic.Pointer[error] // why the last server was not reached; nil after a connect

	open  context.Context // ends when the connection is closed, with the cause if the client library closed it
	close context.CancelCauseFunc
}

// newClient reads the files of the block for the first time.
func (c Config) newClient() (*client, error) {
	out := &client{config: c, denied: &denials{watches: map[*watch]struct{}{}}, retried: rate.Sometimes{Interval: retryLogged}}
	out.open, out.close = context.WithCancelCause(context.Background())
	if c.NATS.files() {
		first, err := c.NATS.read()
		if err != nil {
			return nil, err
		}
		out.login = &login{block: c.NATS, accepted: first, current: first}
	}
	return out, nil
}

// Dial implements nats.CustomDialer. It takes the material of the attempt.
func (c *client) Dial(network, address string) (net.Conn, error) {
	if c.login != nil {
		m := c.login.attempt()
		if conn := c.conn.Load(); conn != nil && m.nkey != "" {
			conn.Opts.Nkey = m.nkey // the caller holds the connection's lock, and has not read this option yet
		}
	}
	if c.home != nil {
		address = c.home.find()
	}
	conn, err := c.dialer.Dial(network, address)
	if err != nil {
		c.undialed.Store(&err)
		return nil, err
	}
	return &greeted{Conn: conn}, nil
}

// greeted is a connection to a server. Only the login has a deadline. If that ends the login after the server's first
// bytes, its greeting, the error is errAuthTimeout. It has one reader at a time.
type greeted struct {
	net.Conn
	received bool
}

func (g *greeted) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	if g.received && errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("%w: %w", errAuthTimeout, err)
	}
	g.received = g.received || n > 0
	return n, err
}

// unreached adds to the error of a first attempt why the last server was not reached. The client library drops that.
func (c *client) unreached(err error) error {
	if why := c.undialed.Load(); why != nil && errors.Is(err, nats.ErrNoServers) {
		return fmt.Errorf("%w: %w", err, *why)
	}
	return err
}

// options returns the options of the connection.
func (c *client) options(servers []string, timeout time.Duration) nats.Options {
	o := nats.GetDefaultOptions()
	o.Servers = servers
	o.Name = c.config.Name
	o.Timeout = timeout
	c.dialer.Timeout = timeout
	o.CustomDialer = c
	o.MaxReconnect = -1
	o.IgnoreDiscoveredServers = c.config.ListedOnly
	o.ReconnectWait = c.config.wait()
	o.ReconnectJitter, o.ReconnectJitterTLS = o.ReconnectWait/2, o.ReconnectWait/2
	o.ReconnectBufSize = -1 // publishing while disconnected is an error, not a delayed message
	o.PingInterval, o.MaxPingsOut = pingInterval, pingsOut
	o.IgnoreAuthErrorAbort = true     // rejected credentials may be accepted later
	o.PermissionErrOnSubscribe = true // NextMsg returns it
	if o.InboxPrefix = c.config.InboxPrefix; o.InboxPrefix == "" && c.config.User.Role != "" {
		o.InboxPrefix = c.config.User.InboxPrefix()
	}
	o.DisconnectedErrCB = func(_ *nats.Conn, err error) {
		if err != nil { // nil: closed by us
			c.config.Log.Warn("bus lost", "err", err)
		}
	}
	o.ConnectedCB = c.up // also after a first attempt that failed
	o.ReconnectedCB = func(nc *nats.Conn) { c.up(nc); c.config.Log.Info("bus reconnected") }
	o.ReconnectErrCB = func(_ *nats.Conn, err error) { c.unreachable(err) }
	o.AsyncErrorCB = c.asyncError
	o.ClosedCB = func(nc *nats.Conn) { c.close(c.closed(nc)) }
	if c.home != nil {
		c.home.authenticate(&o)
	} else {
		c.authenticate(&o)
	}
	return o
}

// authenticate sets the options for the files and for TLS.
func (c *client) authenticate(o *nats.Options) {
	n := c.config.NATS
	if n.TLS != (TLS{}) {
		o.Secure = true
	}
	for _, server := range o.Servers {
		o.Secure = o.Secure || strings.HasPrefix(server, "tls://")
	}
	if o.Secure {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if c.login == nil {
		return
	}
	if n.TLS.CAFile != "" {
		o.RootCAsCB = func() (*x509.CertPool, error) { return c.login.now().cas, nil }
	}
	if n.TLS.CertFile != "" {
		o.TLSCertCB = func() (tls.Certificate, error) { return *c.login.now().cert, nil }
	}
	sign := func(nonce []byte) ([]byte, error) { return c.login.now().key.Sign(nonce) }
	switch {
	case n.CredentialsFile != "":
		o.UserJWT, o.SignatureCB = func() (string, error) { return c.login.now().jwt, nil }, sign
	case n.NKeyFile != "":
		o.Nkey, o.SignatureCB = c.login.now().nkey, sign
	case n.TokenFile != "":
		o.TokenHandler = func() string { return c.login.now().token }
	case n.User != "":
		o.UserInfo = func() (string, string) { return n.User, c.login.now().password }
	}
}

// wait returns the pause between two rounds of connection attempts.
func (c Config) wait() time.Duration { return cmp.Or(c.ReconnectWait, reconnectWait) }

// up is called after each connect.
func (c *client) up(nc *nats.Conn) {
	if c.login != nil {
		c.login.connected()
	}
	c.clustered.Store(nc.ConnectedClusterName() != "")
	c.undialed.Store(nil)
	c.denied.forget()
	if err := outdated(nc); err != nil { // the first connect returns it
		c.config.Log.Warn("bus server is too old", "err", err)
	}
}

// unreachable logs a failed attempt to connect, at a bounded rate.
func (c *client) unreachable(err error) {
	c.retried.Do(func() { c.config.Log.Warn("bus not reached", "err", c.config.explain(err)) })
}

// why returns the error of the last failed attempt of a lost connection, and what to do. The client library drops the
// error of an attempt that reached no server.
func (c *client) why(nc *nats.Conn) error {
	err := nc.LastError()
	if dialed := c.undialed.Load(); err == nil && dialed != nil {
		err = *dialed
	}
	if err == nil {
		return errConnecting
	}
	return fmt.Errorf("%w; %s", err, c.config.remedy(err))
}

// closed returns why the client library closed the connection for good. It does so after an error of a server that is not about
// the login, such as a message that is longer than the server accepts since a reload.
func (c *client) closed(nc *nats.Conn) error {
	return fmt.Errorf("%w for good: %w", nats.ErrConnectionClosed, c.why(nc))
}

// errConnecting is why a connection is lost whose first attempt has not ended.
var errConnecting = errors.New("connecting")

// logLost logs why a lost connection does not return. Nothing else reports an attempt that fails in its TLS handshake, or
// whose first login failed.
func (c *client) logLost() {
	nc := c.conn.Load()
	if nc == nil || nc.IsConnected() || nc.IsClosed() {
		return
	}
	if err := nc.LastError(); err != nil {
		c.unreachable(err)
	}
}

func (c *client) asyncError(nc *nats.Conn, sub *nats.Subscription, err error) {
	if errors.Is(err, nats.ErrPermissionViolation) {
		if v, ok := parseViolation(err, c.config.who()); ok {
			if n := c.denied.report(v, inboxOf(nc), time.Now()); n > 0 {
				c.config.Log.Warn("bus permission denied", "times", n, "err", v)
			}
			return
		}
	}
	if rejects(err) {
		c.unreachable(err)
		return
	}
	subject := ""
	if sub != nil {
		subject = sub.Subject
	}
	c.config.Log.Warn("bus error", "subject", subject, "err", err)
}

// inboxOf returns the prefix of the subjects on which a connection receives responses.
func inboxOf(nc *nats.Conn) string {
	if nc.Opts.InboxPrefix != "" {
		return nc.Opts.InboxPrefix + "."
	}
	return nats.InboxPrefix
}
