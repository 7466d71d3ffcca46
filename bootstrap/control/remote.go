package control

import (
	"context"
	"errors"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	signalv1 "github.com/weirkeeper/weirkeeper/proto/signal/v1"
)

const (
	maxMessage = 256 << 10 // bytes of a message from the plugin
	maxHeaders = 16 << 10  // bytes of a call's headers, including its error text

	stdioMethod = "/plugin.GRPCStdio/StreamStdio"
)

// remote holds the clients of a plugin's services.
type remote struct {
	control signalv1.ControlClient
	health  healthv1.HealthClient
}

// controlPlugin creates a remote for a connection.
type controlPlugin struct{ plugin.NetRPCUnsupportedPlugin }

// GRPCServer implements plugin.GRPCPlugin. It fails: bootstrap is not a plugin.
func (controlPlugin) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error {
	return errors.New("bootstrap is not a plugin")
}

// GRPCClient implements plugin.GRPCPlugin.
func (controlPlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return remote{signalv1.NewControlClient(conn), healthv1.NewHealthClient(conn)}, nil
}

// dialOptions returns options that are added to go-plugin's own and override them.
func dialOptions(a *attachment) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithContextDialer(a.dial),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithMaxHeaderListSize(maxHeaders),
		grpc.WithStreamInterceptor(onlyStdio),
	}
}

// onlyStdio allows go-plugin to open only the stream of the plugin's output. Over the broker's stream, a plugin could
// make it start any number of goroutines.
//
// Every error of opening it becomes "unavailable". go-plugin interprets that as a plugin without output. After any
// other error it drops the connection without closing it.
func onlyStdio(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn,
	method string, open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	if method != stdioMethod {
		return nil, status.Error(codes.Unimplemented, method+" is not used")
	}
	stream, err := open(ctx, desc, conn, method, options...)
	if err != nil {
		return nil, unavailable(err)
	}
	return stdioStream{stream}, nil
}

type stdioStream struct{ grpc.ClientStream }

func (s stdioStream) SendMsg(m any) error { return unavailable(s.ClientStream.SendMsg(m)) }
func (s stdioStream) CloseSend() error    { return unavailable(s.ClientStream.CloseSend()) }

func unavailable(err error) error {
	if err == nil {
		return nil
	}
	return status.Error(codes.Unavailable, err.Error())
}
