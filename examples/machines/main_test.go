package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
	ours "github.com/weirkeeper/weirkeeper/pools/grpc"
	pb "github.com/weirkeeper/weirkeeper/pools/grpc/externalgrpc"
	"github.com/weirkeeper/weirkeeper/pools/pooltest"
	"github.com/weirkeeper/weirkeeper/pools/provider"
)

// asProgram is the variable with which the test binary runs as the program.
const asProgram = "MACHINES_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// open opens the provider of a pool with one group of the server.
func open(t *testing.T, address, group string) provider.Opened {
	t.Helper()
	kind := ours.ProviderKind()
	selector := kind.Selectors[0].New()
	if err := yaml.Unmarshal(fmt.Appendf(nil, "{address: %q, group: %q, timeout: 5s}", address, group), selector); err != nil {
		t.Fatal(err)
	}
	opened, err := kind.Open(t.Context(), provider.Site{Cluster: "c", Pool: "p", Groups: []provider.Group{selector}})
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

// fresh is a group that is read anew for every snapshot, as in each tick.
type fresh struct {
	pools.Group
	p pools.Provider
}

func (f fresh) Snapshot(ctx context.Context) (pools.GroupSnapshot, error) {
	if _, err := f.p.Groups(ctx); err != nil {
		return pools.GroupSnapshot{}, err
	}
	return f.Group.Snapshot(ctx)
}

// group returns the only group of a provider.
func group(t *testing.T, p pools.Provider) fresh {
	t.Helper()
	found, err := p.Groups(t.Context())
	if err != nil || len(found.Groups) != 1 {
		t.Fatalf("Groups = %+v, %v, want one", found, err)
	}
	return fresh{found.Groups[0], p}
}

// start serves a group on a new socket. around is around each call; it may be nil.
func start(t *testing.T, g *cloud.Group, around grpc.UnaryServerInterceptor) (address string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var options []grpc.ServerOption
	if around != nil {
		options = append(options, grpc.UnaryInterceptor(around))
	}
	rpc := grpc.NewServer(options...)
	pb.RegisterCloudProviderServer(rpc, &server{groups: []*cloud.Group{g}})
	done := make(chan error, 1)
	go func() { done <- rpc.Serve(listener) }()
	t.Cleanup(func() {
		rpc.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "unix://" + path
}

// changes reports whether a call changes the group.
func changes(info *grpc.UnaryServerInfo) bool {
	return strings.HasSuffix(info.FullMethod, "Size") && !strings.HasSuffix(info.FullMethod, "NodeGroupTargetSize") || strings.HasSuffix(info.FullMethod, "NodeGroupDeleteNodes")
}

// The provider of package pools/grpc with this server passes the suite of all providers. The shortage is a quota, which the server
// reports with an instance, or a stock, beyond which it rejects a target. The suite also passes if the server is slow, and if the
// answer to each change is lost.
func TestConformance(t *testing.T) {
	quota, stock := func(g *cloud.Group) { g.Quota(6) }, func(g *cloud.Group) { g.Stock(6) }
	for name, c := range map[string]struct {
		short  func(*cloud.Group)
		around grpc.UnaryServerInterceptor
	}{
		"quota": {quota, nil},
		"stock": {stock, nil},
		"slow": {quota, func(ctx context.Context, in any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			select {
			case <-time.After(3 * time.Millisecond):
			case <-ctx.Done():
			}
			return next(ctx, in)
		}},
		"lost answers": {stock, func(ctx context.Context, in any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			out, err := next(ctx, in)
			if err == nil && changes(info) {
				err = status.Error(codes.Unavailable, "the answer is lost")
			}
			return out, err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pooltest.Run(t, pooltest.RealTime, func(t *testing.T, s pooltest.Setup) pooltest.Harness {
				now := time.Now()
				g := cloud.New(cloud.Config{ID: s.ID, Min: s.Min, Max: s.Max, Target: s.Target, Join: 3 * time.Second, Leave: 3 * time.Second}, now)
				all := []cloud.Operation{cloud.SetTarget, cloud.Terminate}
				refuse := func(err error) func(*testing.T, bool) {
					return func(_ *testing.T, on bool) {
						for _, op := range all {
							g.Refuse(op, map[bool]error{true: err}[on])
						}
					}
				}
				return pooltest.Harness{
					Group: group(t, open(t, start(t, g, c.around), s.ID)),
					Lose:  func(_ *testing.T, id string) { g.Lose(id) },
					Pass: func(context.Context) {
						now = now.Add(time.Second)
						g.Advance(now)
					},
					Short:   func(*testing.T) { c.short(g) },
					Protect: nil, // the protocol does not show protection
					Deny:    refuse(pools.ErrRefused), Throttle: refuse(pools.ErrThrottled),
				}
			})
		})
	}
}

// program runs this program until the returned function or the test ends it.
func program(t *testing.T, address string) (kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "--listen", address, "--group", "blue:2:5", "--boot", "0s")
	cmd.Env, cmd.Stderr = append(os.Environ(), asProgram+"=1"), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	kill = func() {
		if !ended {
			ended = true
			_ = cmd.Process.Signal(syscall.SIGKILL)
			_ = cmd.Wait()
		}
	}
	t.Cleanup(kill)
	line := make([]byte, 200)
	if n, err := out.Read(line); err != nil || !strings.HasPrefix(string(line[:n]), "serving ") {
		t.Fatalf("the program prints %q, %v", line[:n], err)
	}
	return kill
}

// The program serves as a process. While it is killed, its groups are unknown; after its return they are known.
func TestProcess(t *testing.T) {
	address := "unix://" + filepath.Join(t.TempDir(), "s")
	kill := program(t, address)
	p := open(t, address, "b*")
	g := group(t, p)
	running := func(n int) func() error {
		return func() error {
			s, err := g.Snapshot(t.Context())
			if err != nil || s.Target != n || len(s.Instances) != n || s.Instances[n-1].State != api.InstanceRunning {
				return fmt.Errorf("the snapshot is %+v, %v, want %d running machines", s, err, n)
			}
			return nil
		}
	}
	await.Nil(t, "2 machines run", running(2))
	if err := g.SetTarget(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	await.Nil(t, "4 machines run", running(4))
	if err := g.Terminate(t.Context(), []string{"blue-2"}); err != nil {
		t.Fatal(err)
	}
	s, err := g.Snapshot(t.Context())
	if err != nil || s.Target != 3 || len(s.Offers) != 1 || s.Offers[0].InstanceType != "memory.4" || s.Offers[0].Resources[0] != 4 {
		t.Errorf("the snapshot is %+v, %v, want the target 3 and an offer", s, err)
	}
	kill()
	await.Nil(t, "the groups may be missing", func() error {
		found, err := p.Groups(t.Context())
		if err != nil || found.Missing.Err() == nil || len(found.Groups) != 0 {
			return fmt.Errorf("without the program: %+v, %v, want that groups may be missing", found, err)
		}
		return nil
	})
	program(t, address)
	await.Nil(t, "2 machines run", running(2))
}
