package plugin

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	signalv1 "github.com/weirkeeper/weirkeeper/proto/signal/v1"
)

// maxRequest bounds what the host may send, in bytes.
const maxRequest = 64 << 10

// serveControl writes the handshake, and serves the control plane until ctx ends
// or the host asks for the end. Its error is that it could not begin.
func serveControl(ctx context.Context, answer *signalv1.DescribeResponse, stderr io.Writer) error {
	started := make(chan *grpc.Server, 1)
	config := &goplugin.ServeConfig{
		HandshakeConfig: goplugin.HandshakeConfig{
			MagicCookieKey: signalv1.CookieKey, MagicCookieValue: signalv1.CookieValue,
		},
		VersionedPlugins: map[int]goplugin.PluginSet{
			signalv1.ProtocolVersion: {signalv1.PluginName: &control{answer: answer}},
		},
		GRPCServer: func(options []grpc.ServerOption) *grpc.Server {
			server := grpc.NewServer(append(options, grpc.MaxRecvMsgSize(maxRequest))...)
			started <- server
			return server
		},
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: stderr, JSONFormat: true}),
	}
	ended := make(chan struct{})
	var serving sync.WaitGroup
	defer serving.Wait()
	serving.Go(func() {
		defer close(ended)
		goplugin.Serve(config) // tells what hinders it only to its logger
	})
	select {
	case <-ended:
		if len(started) == 0 {
			return errors.New("the go-plugin server did not begin")
		}
		return nil
	case <-ctx.Done():
	}
	select {
	case server := <-started:
		server.Stop() // and go-plugin removes its socket
	case <-ended:
	}
	return nil
}

// control is the one plugin of the program, and its service.
type control struct {
	goplugin.NetRPCUnsupportedPlugin
	signalv1.UnimplementedControlServer
	answer *signalv1.DescribeResponse
}

// GRPCServer implements goplugin.GRPCPlugin.
func (c *control) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	signalv1.RegisterControlServer(s, c)
	return nil
}

// GRPCClient implements goplugin.GRPCPlugin for a host, which this is not.
func (c *control) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("a signal is not a host")
}

// Describe implements signalv1.ControlServer.
func (c *control) Describe(context.Context, *signalv1.DescribeRequest) (*signalv1.DescribeResponse, error) {
	return c.answer, nil
}
