package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/emptypb"

	signalv1 "github.com/weirkeeper/weirkeeper/proto/signal/v1"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// Bounds per connection from the host.
const (
	maxRequest   = 64 << 10 // bytes of a message
	maxHeaders   = 16 << 10 // bytes of a call's headers
	maxStreams   = 16       // concurrent calls
	connectLimit = 10 * time.Second
)

// listen opens the socket of the control connection. It accepts the same users as the signal's own socket.
func listen(path string) (net.Listener, error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	return sigproto.Guard(l), nil
}

// serveControl listens in the host's folder, writes the handshake to stdout, and serves the control connection until
// ctx ends or the host requests shutdown. Neither is an error.
func serveControl(ctx context.Context, answer *signalv1.DescribeResponse, stdout io.Writer) error {
	if os.Getenv(signalv1.TLSKey) != "" {
		return fmt.Errorf("serve the control plane: the host set %s, and a signal has no TLS: start the program with bootstrap", signalv1.TLSKey)
	}
	// The name is short, because a socket address has at most 107 bytes.
	path := filepath.Join(socketFolder(), fmt.Sprintf("plugin%d", rand.Uint32()))
	listener, err := listen(path)
	if err != nil {
		return fmt.Errorf("serve the control plane: %w", err)
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxRequest), grpc.MaxHeaderListSize(maxHeaders),
		grpc.MaxConcurrentStreams(maxStreams), grpc.ConnectionTimeout(connectLimit))
	healthy := health.NewServer()
	healthy.SetServingStatus(signalv1.HealthService, healthv1.HealthCheckResponse_SERVING)
	healthv1.RegisterHealthServer(server, healthy)
	signalv1.RegisterControlServer(server, &control{answer: answer})
	server.RegisterService(shutdownService(end), nil)

	var serving sync.WaitGroup
	var errServe error
	serving.Go(func() {
		defer end()
		errServe = server.Serve(listener)
	})
	_, errStdout := fmt.Fprintf(stdout, "%d|%d|unix|%s|grpc|\n", signalv1.CoreVersion, signalv1.ProtocolVersion, path)
	if errStdout == nil {
		<-ctx.Done()
	}
	server.Stop()
	serving.Wait()
	if errors.Is(errServe, grpc.ErrServerStopped) { // Stop was called before Serve
		errServe = nil
	}
	if err := errors.Join(errStdout, errServe); err != nil {
		return fmt.Errorf("serve the control plane: %w", err)
	}
	return nil
}

// socketFolder returns the folder that the host created for the signal's socket.
func socketFolder() string {
	if folder := os.Getenv(signalv1.FolderKey); folder != "" {
		return folder
	}
	return os.TempDir()
}

// control implements signalv1.ControlServer.
type control struct {
	signalv1.UnimplementedControlServer
	answer *signalv1.DescribeResponse
}

// Describe implements signalv1.ControlServer.
func (c *control) Describe(context.Context, *signalv1.DescribeRequest) (*signalv1.DescribeResponse, error) {
	return c.answer, nil
}

// shutdownService returns go-plugin's service by which a host ends its plugin. go-plugin exports no code for it. The
// messages are empty.
func shutdownService(end func()) *grpc.ServiceDesc {
	shutdown := func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		message := new(emptypb.Empty)
		if err := decode(message); err != nil {
			return nil, err
		}
		end()
		return message, nil
	}
	return &grpc.ServiceDesc{
		ServiceName: signalv1.ShutdownService,
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Shutdown", Handler: shutdown}},
	}
}
