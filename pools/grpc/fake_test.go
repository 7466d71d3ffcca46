package grpc

import (
	"context"
	"crypto/tls"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/goccy/go-yaml"
	rpc "google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/weirkeeper/weirkeeper/pools"
	pb "github.com/weirkeeper/weirkeeper/pools/grpc/externalgrpc"
	"github.com/weirkeeper/weirkeeper/pools/provider"
)

// fake is a server whose answers a test sets. Each group has its target and nodes by its id.
type fake struct {
	pb.UnimplementedCloudProviderServer
	address string
	rpc     *rpc.Server

	mu       sync.Mutex
	groups   []*pb.NodeGroup
	targets  map[string]int32
	nodes    map[string][]*pb.Instance
	template *pb.NodeGroupTemplateNodeInfoResponse
	before   func(ctx context.Context, call, group string) error // of each call; may be nil
	calls    []string
}

// start serves a fake on a new socket, or with TLS on a port.
func start(t *testing.T, config *tls.Config) *fake {
	t.Helper()
	f := &fake{targets: map[string]int32{}, nodes: map[string][]*pb.Instance{}}
	network, at := "unix", filepath.Join(t.TempDir(), "s")
	options := []rpc.ServerOption{rpc.UnaryInterceptor(f.intercept)}
	if config != nil {
		network, at = "tcp", "127.0.0.1:0"
		options = append(options, rpc.Creds(credentials.NewTLS(config)))
	}
	listener, err := net.Listen(network, at)
	if err != nil {
		t.Fatal(err)
	}
	f.rpc, f.address = rpc.NewServer(options...), listener.Addr().String()
	if network == "unix" {
		f.address = unixScheme + f.address
	}
	pb.RegisterCloudProviderServer(f.rpc, f)
	done := make(chan error, 1)
	go func() { done <- f.rpc.Serve(listener) }()
	t.Cleanup(func() {
		f.rpc.Stop()
		<-done
	})
	return f
}

// add adds a group of running machines without ids of their own: GROUP-1 and so on.
func (f *fake) add(group string, nodes ...string) {
	f.groups = append(f.groups, &pb.NodeGroup{Id: group, MinSize: 0, MaxSize: 100})
	f.targets[group] = int32(len(nodes))
	f.nodes[group] = []*pb.Instance{}
	for _, n := range nodes {
		f.nodes[group] = append(f.nodes[group], running(n))
	}
}

func running(id string) *pb.Instance {
	return &pb.Instance{Id: "fake://zone/" + id, Status: &pb.InstanceStatus{InstanceState: pb.InstanceStatus_instanceRunning}}
}

func (f *fake) intercept(ctx context.Context, in any, info *rpc.UnaryServerInfo, next rpc.UnaryHandler) (any, error) {
	group := ""
	if named, ok := in.(interface{ GetId() string }); ok {
		group = named.GetId()
	}
	call := info.FullMethod[strings.LastIndexByte(info.FullMethod, '/')+1:]
	f.mu.Lock()
	f.calls = append(f.calls, strings.TrimSpace(call+" "+group))
	before := f.before
	f.mu.Unlock()
	if before != nil {
		if err := before(ctx, call, group); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return next(ctx, in)
}

// set sets what precedes each call.
func (f *fake) set(before func(ctx context.Context, call, group string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before = before
}

func (f *fake) Refresh(context.Context, *pb.RefreshRequest) (*pb.RefreshResponse, error) {
	return &pb.RefreshResponse{}, nil
}

func (f *fake) NodeGroups(context.Context, *pb.NodeGroupsRequest) (*pb.NodeGroupsResponse, error) {
	return &pb.NodeGroupsResponse{NodeGroups: f.groups}, nil
}

func (f *fake) NodeGroupTargetSize(_ context.Context, in *pb.NodeGroupTargetSizeRequest) (*pb.NodeGroupTargetSizeResponse, error) {
	return &pb.NodeGroupTargetSizeResponse{TargetSize: f.targets[in.Id]}, nil
}

func (f *fake) NodeGroupNodes(_ context.Context, in *pb.NodeGroupNodesRequest) (*pb.NodeGroupNodesResponse, error) {
	return &pb.NodeGroupNodesResponse{Instances: f.nodes[in.Id]}, nil
}

func (f *fake) NodeGroupTemplateNodeInfo(ctx context.Context, in *pb.NodeGroupTemplateNodeInfoRequest) (*pb.NodeGroupTemplateNodeInfoResponse, error) {
	if f.template == nil {
		return f.UnimplementedCloudProviderServer.NodeGroupTemplateNodeInfo(ctx, in)
	}
	return f.template, nil
}

func (f *fake) NodeGroupIncreaseSize(_ context.Context, in *pb.NodeGroupIncreaseSizeRequest) (*pb.NodeGroupIncreaseSizeResponse, error) {
	f.targets[in.Id] += in.Delta
	return &pb.NodeGroupIncreaseSizeResponse{}, nil
}

// selectorOf decodes a selector, as the configuration does.
func selectorOf(t *testing.T, text string) *selector {
	t.Helper()
	s := new(selector)
	if err := yaml.Unmarshal([]byte(text), s); err != nil {
		t.Fatal(err)
	}
	if ps := s.Check(); len(ps) > 0 {
		t.Fatalf("%s: %v", text, ps)
	}
	return s
}

// openPool opens the provider of a pool with these selectors.
func openPool(t *testing.T, selectors ...*selector) *machines {
	t.Helper()
	site := provider.Site{Cluster: "c", Pool: "p"}
	for _, s := range selectors {
		site.Groups = append(site.Groups, s)
	}
	p, err := open(site)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// snapshots returns what a tick reads: for each group its snapshot, or its error.
func snapshots(t *testing.T, p *machines) (known map[string]pools.GroupSnapshot, unknown map[string]string, l pools.Listing) {
	t.Helper()
	l, err := p.Groups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	known, unknown = map[string]pools.GroupSnapshot{}, map[string]string{}
	for _, g := range l.Groups {
		if s, err := g.Snapshot(t.Context()); err != nil {
			unknown[g.ID()] = err.Error()
		} else {
			known[g.ID()] = s
		}
	}
	return known, unknown, l
}
