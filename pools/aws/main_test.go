package aws

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/awssdk"
	"github.com/weirkeeper/weirkeeper/internal/platform/s3gateway/s3test"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
	"github.com/weirkeeper/weirkeeper/pools/aws/awstest"
)

func TestMain(m *testing.M) {
	s3test.RunIfChild()
	// The SDK's clients keep idle connections and cannot be closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

const (
	tag   = "weir:pool"
	ours  = "c/p"
	named = `{"pool": "p", "paasta_cluster": "c"}`
)

// configFor returns the configuration of a provider of pool p of cluster c, at the server.
func configFor(s *awsfake.Server, kinds ...Kind) Config {
	cfg := Config{
		Cluster: "c", Pool: "p", Region: s.Region(), Endpoint: s.URL(), Keys: awssdk.Fixed("AKID", "SECRET"),
		Reads: 1e4, Writes: 1e4, Now: s.Now,
	}
	if client, ok := awstest.Direct(s); ok {
		cfg.Client = client
	}
	for _, k := range kinds {
		cfg.Groups = append(cfg.Groups, Selector{Kind: k, Tag: tag})
	}
	return cfg
}

func open(t *testing.T, cfg Config) *Provider {
	t.Helper()
	p, err := Open(t.Context(), cfg, discard())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// one reads the groups, and returns the only group with its snapshot.
func one(t *testing.T, p *Provider) (pools.Group, pools.GroupSnapshot) {
	t.Helper()
	found, err := p.Groups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Groups) != 1 {
		t.Fatalf("%d groups, want 1", len(found.Groups))
	}
	s, err := found.Groups[0].Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return found.Groups[0], s
}

// passIn advances the server's time, and the test's time a little.
func passIn(ctx context.Context, s *awsfake.Server) {
	s.Advance(10 * time.Second)
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Millisecond):
	}
}

// pass advances the time until all requested changes are complete.
func pass(s *awsfake.Server) { s.Advance(3 * time.Minute) }

func living(s pools.GroupSnapshot) (n int) {
	for _, i := range s.Instances {
		if i.State != api.InstanceTerminating {
			n++
		}
	}
	return n
}

// count returns how often the action was requested.
func count(s *awsfake.Server, action string) (n int) {
	for _, c := range s.Calls() {
		if c.Action == action {
			n++
		}
	}
	return n
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
