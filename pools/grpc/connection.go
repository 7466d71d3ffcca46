package grpc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	rpc "google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/grpc/externalgrpc"
)

const (
	maxAnswer  = 16 << 20 // bytes of an answer
	maxHeaders = 64 << 10 // bytes of the headers of an answer
	maxCause   = 300      // bytes of a text of the server
	// reconnect bounds the pause between two attempts to connect. A call in the pause fails at once.
	reconnect = time.Second
	// unanswered is how long a call waits before the connection is tested: the server's host may have disappeared.
	unanswered = 10 * time.Second
)

// server is a connection to one server. It may be used concurrently. It is closed some time after its last use: a provider has no end.
type server struct {
	address string
	timeout time.Duration // of a call
	externalgrpc.CloudProviderClient
}

// connect returns a connection that is made with the first call, and made again after it is lost.
func connect(s *selector) (*server, error) {
	network, at, err := s.place()
	if err != nil {
		return nil, err
	}
	creds := insecure.NewCredentials()
	if s.TLS != nil {
		config, err := s.TLS.config()
		if err != nil {
			return nil, err
		}
		creds = credentials.NewTLS(config)
	}
	conn, err := rpc.NewClient("passthrough:///"+at,
		rpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, at)
		}),
		rpc.WithTransportCredentials(creds), rpc.WithDisableServiceConfig(), rpc.WithDisableRetry(),
		rpc.WithConnectParams(rpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: reconnect / 10, Multiplier: 2, Jitter: 0.2, MaxDelay: reconnect},
			MinConnectTimeout: s.timeout(),
		}),
		rpc.WithKeepaliveParams(keepalive.ClientParameters{Time: unanswered, Timeout: unanswered / 2}),
		rpc.WithMaxHeaderListSize(maxHeaders), rpc.WithDefaultCallOptions(rpc.MaxCallRecvMsgSize(maxAnswer)))
	if err != nil {
		return nil, err
	}
	connected := &server{s.Address, s.timeout(), externalgrpc.NewCloudProviderClient(conn)}
	runtime.AddCleanup(connected, func(c *rpc.ClientConn) { _ = c.Close() }, conn)
	return connected, nil
}

// config returns the settings of encrypted connections.
func (f tlsFiles) config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.ServerName}
	if f.CAFile != "" {
		pem, err := os.ReadFile(f.CAFile)
		if err != nil {
			return nil, fmt.Errorf("tls.ca_file: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.ca_file: %s has no certificate", f.CAFile)
		}
	}
	if f.CertFile != "" {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(f.CertFile, f.KeyFile)
			return &pair, err
		}
	}
	return c, nil
}

// call makes one call within the timeout of the server. Its error is a *callError, or that of an ended context.
func call[Q, A any](ctx context.Context, s *server, name string, method func(context.Context, *Q, ...rpc.CallOption) (*A, error), in *Q) (*A, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	out, err := method(ctx, in)
	runtime.KeepAlive(s)
	if err != nil {
		return nil, &callError{call: name, address: s.address, code: status.Code(err), cause: prose.Line(message(status.Convert(err).Message()), maxCause)}
	}
	return out, nil
}

// message returns the text of a status. Of a failed connection it is the cause, without the words around it.
func message(text string) string {
	quoted, ok := strings.CutPrefix(text, "connection error: desc = ")
	if cause, err := strconv.Unquote(quoted); ok && err == nil {
		return strings.TrimPrefix(strings.TrimPrefix(cause, "transport: "), "Error while dialing: ")
	}
	return text
}

// callError is a failed call.
type callError struct {
	call, address string
	code          codes.Code
	cause         string
}

func (e *callError) Error() string {
	return fmt.Sprintf("%s of %s: %s: %s", e.call, e.address, e.code, e.cause)
}

// Unwrap returns the cause as an error of the packages pools and context. An error that is neither may have any effect.
func (e *callError) Unwrap() []error {
	var all []error
	if c := e.class(); c != nil {
		all = append(all, c)
	}
	switch e.code {
	case codes.DeadlineExceeded:
		all = append(all, context.DeadlineExceeded)
	case codes.Canceled:
		all = append(all, context.Canceled)
	}
	return all
}

// class returns how long the cause lasts: pools.ErrThrottled for seconds, pools.ErrShort until there is capacity,
// pools.ErrRefused until a person changes something; nil: unknown.
func (e *callError) class() error {
	switch e.code {
	case codes.Unavailable, codes.DeadlineExceeded:
		if !e.writes() {
			return pools.ErrThrottled
		}
	case codes.ResourceExhausted, codes.Aborted:
		return pools.ErrThrottled
	case codes.FailedPrecondition, codes.OutOfRange:
		if e.call == increase {
			return pools.ErrShort
		}
		return pools.ErrRefused
	case codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented, codes.InvalidArgument, codes.NotFound:
		return pools.ErrRefused
	}
	return nil
}

// Names of the calls that change a group.
const (
	increase = "NodeGroupIncreaseSize"
	decrease = "NodeGroupDecreaseTargetSize"
	end      = "NodeGroupDeleteNodes"
)

func (e *callError) writes() bool { return e.call == increase || e.call == decrease || e.call == end }

// unclear reports whether the call may have been carried out, or may still be: the server did not reject it.
func unclear(err error) bool {
	e, ok := errors.AsType[*callError](err)
	return ok && e.class() == nil
}

// hasCode reports whether the server answered with that code.
func hasCode(err error, code codes.Code) bool {
	e, ok := errors.AsType[*callError](err)
	return ok && e.code == code
}
