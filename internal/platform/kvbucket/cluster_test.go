package kvbucket_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
)

// cluster starts three servers and waits until they have a leader.
func cluster(t *testing.T) []*server.Server {
	t.Helper()
	var all []*server.Server
	var routes []*url.URL
	ports := freePorts(t, 3)
	for _, port := range ports {
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprint("127.0.0.1:", port)})
	}
	for i, port := range ports {
		s, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprint("n", i), Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: t.TempDir(), Routes: routes,
			Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: port},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			s.Shutdown()
			s.WaitForShutdown()
		})
		s.Start()
		all = append(all, s)
	}
	for _, s := range all {
		if !s.ReadyForConnections(patience) {
			t.Fatalf("server %s does not accept connections", s.Name())
		}
	}
	await.True(t, "the cluster has a leader with two followers", func() bool {
		return slices.ContainsFunc(all, func(s *server.Server) bool {
			return s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == len(all)
		})
	})
	return all
}

// freePorts returns free ports below the range of the ports of connections.
func freePorts(t *testing.T, n int) (ports []int) {
	t.Helper()
	for range 1000 {
		port := 15000 + rand.IntN(15000)
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			continue
		}
		l.Close()
		if ports = append(ports, port); len(ports) == n {
			return ports
		}
	}
	t.Fatal("no free ports")
	return nil
}

// A cluster of three keeps a bucket while two of its servers are up. With one server no read counts as proof. The bucket is not taken for a missing one.
func TestWithoutQuorum(t *testing.T) {
	t.Parallel()
	servers := cluster(t)
	js := streams(t, bustest.Connect(t, servers[0].ClientURL(), nats.DontRandomize()))
	b := create(t, js, 3) // also right after the start of the cluster
	revision := put(t, b, "k", "1")
	stream, err := kvbucket.Check(within(t), js, b.Name())
	if err != nil || !kvbucket.Replicated(stream.CachedInfo()) || stream.CachedInfo().Config.Replicas != 3 {
		t.Fatalf("Check = %v, want a bucket with three replicas", err)
	}
	for _, s := range servers[1:] {
		s.Shutdown()
	}
	await.True(t, "the loss of the quorum shows", func() bool {
		_, err := kvbucket.Check(within(t), js, b.Name())
		if errors.Is(err, kvbucket.ErrMissing) {
			t.Fatalf("Check = %v: the bucket is not missing", err)
		}
		return errors.Is(err, kvbucket.ErrNoQuorum)
	})
	if c := kvbucket.Observe(within(t), js, name); !errors.Is(c.Err, kvbucket.ErrNoQuorum) || c.Since.IsZero() {
		t.Errorf("Observe = %+v, want no quorum and the time of the last write", c)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if _, err := b.Update(ctx, "k", []byte("2"), revision); !kvbucket.Unavailable(err) || errors.Is(err, kvbucket.ErrMissing) {
		t.Errorf("Update = %v, want an error of an unavailable cluster", err)
	}
}
