package bus

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Errors that the client library does not have.
var (
	errControlLine = errors.New("nats: maximum control line exceeded") // of a server: the CONNECT is too long
	errAuthTimeout = errors.New("nats: authentication timeout")        // of a server, or of this client after the greeting
)

// ConnectError is the error of Open for servers that no client of this configuration can use.
type ConnectError struct {
	Servers string // without secrets
	Err     error  // of a server, of this host or of a file
	Remedy  string // empty: Err has it
	Places  []string
}

func (e *ConnectError) Error() string {
	text := fmt.Sprintf("connect to NATS at %s: %v", e.Servers, e.Err)
	if e.Remedy != "" {
		text += "; " + e.Remedy
	}
	return text + list(e.Places)
}

func (e *ConnectError) Unwrap() error { return e.Err }

// who names how this process authenticates, without secrets.
func (n NATS) who() string {
	switch {
	case n.CredentialsFile != "":
		return "the user of nats.credentials_file " + n.CredentialsFile
	case n.NKeyFile != "":
		return "the user of nats.nkey_file " + n.NKeyFile
	case n.TokenFile != "":
		return "the token of nats.token_file " + n.TokenFile
	case n.User != "":
		return fmt.Sprintf("user %q of nats.user", n.User)
	}
	for _, server := range n.Servers {
		if u, err := parseServer(server); err == nil && u.User != nil {
			if _, both := u.User.Password(); both {
				return fmt.Sprintf("user %q of the URL", u.User.Username())
			}
			return "the token of the URL"
		}
	}
	return "a client without credentials"
}

// who names how this process authenticates, without secrets.
func (c Config) who() string {
	if c.Identity != "" {
		return "the identity of " + c.Identity
	}
	if len(c.NATS.Servers) == 0 && c.User.Role != "" {
		return "user " + c.User.Name() + " of the data folder"
	}
	return c.NATS.who()
}

// explain returns the error of a connection attempt and what to do, in one line.
func (c Config) explain(err error) string {
	return fmt.Sprintf("%v; %s", err, c.remedy(err))
}

// remedy returns what an operator does about a failed connection.
func (c Config) remedy(err error) string {
	certificate, wrongCertificate := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case wrongCertificate:
		return c.NATS.certificateRemedy(certificate)
	case c.Identity != "" && identityRemedy(c.Identity, err) != "":
		return identityRemedy(c.Identity, err)
	case errors.Is(err, nats.ErrTLS), alerted(err):
		return "the TLS handshake failed: compare nats.tls.cert_file, which the servers may require, with the authorities that they accept"
	case errors.Is(err, nats.ErrSecureConnWanted):
		return "the server has no TLS: enable it there, or remove tls:// and nats.tls here"
	case errors.Is(err, errControlLine):
		return fmt.Sprintf("%s is too long for the server: shorten the credentials, or raise max_control_line of the servers", c.NATS.who())
	case strings.Contains(err.Error(), "Maximum Payload Violation"):
		return "the servers accept shorter messages since a reload: raise their max_payload; a new connection keeps to it"
	case errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAccountAuthExpired):
		return fmt.Sprintf("%s has expired: renew it", c.NATS.who())
	case errors.Is(err, nats.ErrAuthRevoked):
		return fmt.Sprintf("%s is revoked: replace it", c.NATS.who())
	case errors.Is(err, nats.ErrAuthorization) && c.NATS.who() == NATS{}.who():
		return "set nats.credentials_file, nkey_file, token_file, or user with password_file in weir.yaml, or name the user in the URL: nats://USER:PASSWORD@HOST:PORT"
	case errors.Is(err, nats.ErrAuthorization) && c.NATS.NKeyFile != "":
		return fmt.Sprintf(`the server rejects %s: replace it, or add the user to the servers (accounts.conf of "weir nats init" there, and its daemons.json at "weir auth")`, c.NATS.who())
	case errors.Is(err, nats.ErrAuthorization):
		return fmt.Sprintf("the server rejects %s: replace it, or add the user to the servers", c.NATS.who())
	case errors.Is(err, nats.ErrNkeysNotSupported):
		return fmt.Sprintf("no user of the server has an nkey: add %s to its configuration, or authenticate in another way", c.who())
	case unanswered(err):
		return fmt.Sprintf(`the server has not accepted %s: check that "weir auth" runs, and that this user is in the configuration of the servers`, c.who())
	case errors.Is(err, nats.ErrTimeout), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return "the server does not answer: check its process, its log and the network, or name another in nats.servers of weir.yaml"
	}
	return "start NATS there, or name another with --nats, WEIR_NATS or nats.servers of weir.yaml"
}

// unanswered reports whether a server sent its greeting and then neither accepted nor rejected the user: the service that
// verifies users is away.
func unanswered(err error) bool {
	return errors.Is(err, errAuthTimeout) || strings.Contains(err.Error(), "expected 'PONG', got 'PING'")
}

// identityRemedy returns what to do about the refused identity of an agent; empty for another error. A server does not
// pass on why "weir auth" refuses.
func identityRemedy(key string, err error) string {
	switch text := strings.ToLower(err.Error()); {
	case strings.Contains(text, "prove identity"):
		return "correct " + key + " of weir.yaml or what the error names"
	case strings.Contains(text, "nkeys not supported"):
		return "the server sends no nonce: add a user with an nkey to its configuration"
	case errors.Is(err, nats.ErrAuthExpired):
		return fmt.Sprintf("the user for %s has expired: weir connects again by itself", key)
	case errors.Is(err, nats.ErrAuthorization), strings.Contains(text, "authorization violation"):
		return fmt.Sprintf(`"weir auth" refuses the identity of %s: its log has the reason`, key)
	case unanswered(err):
		return `the server has no answer from "weir auth": check that it runs`
	case strings.Contains(text, "maximum control line"):
		return fmt.Sprintf("the identity token of %s is too long for the server: raise its max_control_line", key)
	}
	return ""
}

// certificateRemedy returns what to do about the certificate of a server.
func (n NATS) certificateRemedy(err error) string {
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](err)
	_, wrongHost := errors.AsType[x509.HostnameError](err)
	switch {
	case isInvalid && invalid.Reason == x509.Expired:
		return "renew the server's certificate, and check the clock of this host"
	case wrongHost:
		return "name the server in nats.servers as its certificate does"
	case n.TLS.CAFile == "":
		return "set nats.tls.ca_file to the certificates of the authority that signs the servers' certificates"
	}
	return fmt.Sprintf("nats.tls.ca_file %s has another authority than the one that signs the server's certificate: replace it", n.TLS.CAFile)
}

// tooLongError is the error of a message that is longer than the connected server accepts. It wraps nats.ErrMaxPayload. The check
// of the bus names it for a minute.
type tooLongError struct {
	Subject string // of the message, or of the request that it answers
	Bytes   int    // without headers
	Most    int64  // bytes that the server accepts
}

func (e *tooLongError) Error() string {
	return fmt.Sprintf("message of %d bytes for %s: NATS accepts %d with headers: raise max_payload of its servers and accounts", e.Bytes, e.Subject, e.Most)
}

// Unwrap returns nats.ErrMaxPayload.
func (e *tooLongError) Unwrap() error { return nats.ErrMaxPayload }

// unsent returns the error of a message in words for an operator. It reports one that is too long.
func unsent(nc *nats.Conn, subject string, m *nats.Msg, err error) error {
	if !errors.Is(err, nats.ErrMaxPayload) {
		return offline(err)
	}
	long := &tooLongError{subject, len(m.Data), nc.MaxPayload()}
	if c, ok := nc.Opts.CustomDialer.(*client); ok {
		c.denied.mu.Lock()
		defer c.denied.mu.Unlock()
		if n := c.denied.keepLocked(&c.denied.publishes, subject, long, time.Now()); n > 0 {
			c.config.Log.Warn("bus message too long", "times", n, "err", long)
		}
	}
	return long
}

// short reports whether messages of the last minute were too long, which a new connection may accept.
func (d *denials) short(now time.Time) bool {
	_, publishes := d.refused(now)
	for _, err := range publishes {
		if _, long := errors.AsType[*tooLongError](err); long {
			return true
		}
	}
	return false
}
