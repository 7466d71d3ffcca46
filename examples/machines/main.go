// Command machines is an example of a server from which Weirkeeper gets machines, with cluster-autoscaler's protocol externalgrpc. Its
// machines exist only in the memory of this process: package pools/cloud has them. A server for a real cloud makes calls of that
// cloud in the methods below. Several processes call it at the same time. docs/guide-machines.md describes each method.
//
//	machines --listen unix:///tmp/machines.sock --group blue:1:10 --group red:0:5
package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
	pb "github.com/weirkeeper/weirkeeper/pools/grpc/externalgrpc"
)

// scheme begins the ids of the machines. The rest is the id of the node, for the flag --id of its agent.
const scheme = "memory://"

// server has the groups of machines.
type server struct {
	pb.UnimplementedCloudProviderServer
	groups []*cloud.Group

	mu sync.Mutex // held by a change, which reads and writes in one step
}

// find returns a group with its current state.
func (s *server) find(ctx context.Context, id string) (*cloud.Group, pools.GroupSnapshot, error) {
	for _, g := range s.groups {
		if g.ID() == id {
			now, err := g.Snapshot(ctx)
			return g, now, failure(err)
		}
	}
	return nil, pools.GroupSnapshot{}, status.Errorf(codes.NotFound, "there is no group %q", id)
}

// Refresh is called before each reading. A server with a cache empties it here.
func (s *server) Refresh(context.Context, *pb.RefreshRequest) (*pb.RefreshResponse, error) {
	return &pb.RefreshResponse{}, nil
}

func (s *server) NodeGroups(ctx context.Context, _ *pb.NodeGroupsRequest) (*pb.NodeGroupsResponse, error) {
	out := &pb.NodeGroupsResponse{}
	for _, g := range s.groups {
		now, err := g.Snapshot(ctx)
		if err != nil {
			return nil, failure(err) // not a shorter list: a missing group would be one that does not exist
		}
		out.NodeGroups = append(out.NodeGroups, &pb.NodeGroup{Id: g.ID(), MinSize: int32(now.Min), MaxSize: int32(now.Max)})
	}
	return out, nil
}

func (s *server) NodeGroupTargetSize(ctx context.Context, in *pb.NodeGroupTargetSizeRequest) (*pb.NodeGroupTargetSizeResponse, error) {
	_, now, err := s.find(ctx, in.Id)
	return &pb.NodeGroupTargetSizeResponse{TargetSize: int32(now.Target)}, err
}

func (s *server) NodeGroupNodes(ctx context.Context, in *pb.NodeGroupNodesRequest) (*pb.NodeGroupNodesResponse, error) {
	_, now, err := s.find(ctx, in.Id)
	out := &pb.NodeGroupNodesResponse{}
	states := map[api.InstanceState]pb.InstanceStatus_InstanceState{api.InstancePending: pb.InstanceStatus_instanceCreating,
		api.InstanceRunning: pb.InstanceStatus_instanceRunning, api.InstanceTerminating: pb.InstanceStatus_instanceDeleting}
	for _, i := range now.Instances {
		out.Instances = append(out.Instances, &pb.Instance{
			Id: scheme + i.ID, Status: &pb.InstanceStatus{InstanceState: states[i.State]}, Launched: timestamppb.New(i.Launched),
		})
	}
	if now.Short != "" { // a machine that will not come
		out.Instances = append(out.Instances, &pb.Instance{Id: scheme + in.Id + "-missing", Status: &pb.InstanceStatus{
			InstanceState: pb.InstanceStatus_instanceCreating,
			ErrorInfo:     &pb.InstanceErrorInfo{ErrorCode: "out of resources", ErrorMessage: now.Short, InstanceErrorClass: 1},
		}})
	}
	return out, err
}

// NodeGroupTemplateNodeInfo describes the machines of a group, so that a group without machines can get the first one for a copy.
func (s *server) NodeGroupTemplateNodeInfo(ctx context.Context, in *pb.NodeGroupTemplateNodeInfoRequest) (*pb.NodeGroupTemplateNodeInfoResponse, error) {
	if _, _, err := s.find(ctx, in.Id); err != nil {
		return nil, err
	}
	size := map[string]*pb.Quantity{"cpu": {String_: "4"}, "memory": {String_: "16Gi"}, "ephemeral-storage": {String_: "100Gi"}}
	node, err := proto.Marshal(&pb.Node{
		Metadata: &pb.Metadata{Labels: map[string]string{"node.kubernetes.io/instance-type": "memory.4", "topology.kubernetes.io/zone": "zone-a"}},
		Status:   &pb.NodeStatus{Capacity: size, Allocatable: size},
	})
	return &pb.NodeGroupTemplateNodeInfoResponse{NodeBytes: node}, err
}

func (s *server) NodeGroupIncreaseSize(ctx context.Context, in *pb.NodeGroupIncreaseSizeRequest) (*pb.NodeGroupIncreaseSizeResponse, error) {
	return &pb.NodeGroupIncreaseSizeResponse{}, s.change(ctx, in.Id, int(in.Delta), in.Delta > 0)
}

func (s *server) NodeGroupDecreaseTargetSize(ctx context.Context, in *pb.NodeGroupDecreaseTargetSizeRequest) (*pb.NodeGroupDecreaseTargetSizeResponse, error) {
	return &pb.NodeGroupDecreaseTargetSizeResponse{}, s.change(ctx, in.Id, int(in.Delta), in.Delta < 0)
}

// change changes the target by delta, if its sign is valid. It ends no machine.
func (s *server) change(ctx context.Context, id string, delta int, valid bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, now, err := s.find(ctx, id)
	if err != nil || !valid {
		return cmp.Or(err, status.Errorf(codes.InvalidArgument, "the delta is %d", delta))
	}
	// With this check, a call that arrives twice or late changes nothing the second time.
	if want := metadata.ValueFromIncomingContext(ctx, "weir-expected-target"); len(want) > 0 && want[0] != strconv.Itoa(now.Target) {
		return status.Errorf(codes.Aborted, "the target is %d, not %s", now.Target, want[0])
	}
	if delta < 0 && float64(now.Target+delta) < now.Fulfilled() {
		return status.Errorf(codes.FailedPrecondition, "%v machines exist", now.Fulfilled())
	}
	return failure(g.SetTarget(ctx, now.Target+delta)) // nothing happens after the deadline of the call
}

func (s *server) NodeGroupDeleteNodes(ctx context.Context, in *pb.NodeGroupDeleteNodesRequest) (*pb.NodeGroupDeleteNodesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, _, err := s.find(ctx, in.Id)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, n := range in.Nodes {
		ids = append(ids, strings.TrimPrefix(n.ProviderID, scheme))
	}
	return &pb.NodeGroupDeleteNodesResponse{}, failure(g.Terminate(ctx, ids)) // all of them, or none
}

// failure returns an error with the code that has its meaning.
func failure(err error) error {
	for class, code := range map[error]codes.Code{
		pools.ErrThrottled: codes.ResourceExhausted, pools.ErrShort: codes.OutOfRange, pools.ErrRefused: codes.PermissionDenied,
		pools.ErrNotOwned: codes.InvalidArgument, pools.ErrTargetBounds: codes.InvalidArgument,
	} {
		if errors.Is(err, class) {
			return status.Error(code, err.Error())
		}
	}
	return err // without an error, nil; another one has the code UNKNOWN
}

func main() {
	listen := flag.String("listen", "unix:///tmp/machines.sock", "`address`: host:port, or unix:///path")
	cert, key := flag.String("cert", "", "PEM `file` with the certificate"), flag.String("key", "", "PEM `file` with its key")
	ca := flag.String("client-ca", "", "PEM `file` with the certificates that sign those of clients")
	boot := flag.Duration("boot", 5*time.Second, "time from launch to running")
	var groups []cloud.Config
	flag.Func("group", "`name:min:max` of a group of machines; may be repeated", func(text string) error {
		name, sizes, _ := strings.Cut(text, ":")
		c := cloud.Config{ID: name}
		_, err := fmt.Sscanf(sizes, "%d:%d", &c.Min, &c.Max)
		groups = append(groups, c)
		return err
	})
	flag.Parse()
	s := &server{}
	for _, c := range groups {
		c.Target, c.Join, c.Leave = c.Min, *boot, *boot
		s.groups = append(s.groups, cloud.New(c, time.Now()))
	}
	if err := s.serve(*listen, *cert, *key, *ca); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve serves until a signal ends the process.
func (s *server) serve(address, cert, key, ca string) error {
	var options []grpc.ServerOption
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		pem, errCA := os.ReadFile(ca)
		config := &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool()}
		if !config.ClientCAs.AppendCertsFromPEM(pem) || err != nil {
			return fmt.Errorf("read the certificates: want --cert, --key and --client-ca: %w", errors.Join(err, errCA))
		}
		options = append(options, grpc.Creds(credentials.NewTLS(config)))
	}
	network := "tcp"
	if path, ok := strings.CutPrefix(address, "unix://"); ok {
		network, address = "unix", path
		_ = os.Remove(path) // of an earlier process
	}
	listener, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	rpc := grpc.NewServer(options...)
	pb.RegisterCloudProviderServer(rpc, s)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() { // the machines of the memory need the time
		for tick := time.NewTicker(100 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				rpc.GracefulStop()
				return
			case now := <-tick.C:
				for _, g := range s.groups {
					g.Advance(now)
				}
			}
		}
	}()
	fmt.Println("serving", listener.Addr())
	return rpc.Serve(listener)
}
