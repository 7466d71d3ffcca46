package authd

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/bus/natsconf"
	"github.com/weirkeeper/weirkeeper/internal/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/identity"
	"github.com/weirkeeper/weirkeeper/internal/identity/sharedsecret"
	"github.com/weirkeeper/weirkeeper/internal/names"
)

// On the generated configuration, with three servers and TLS, the role auth verifies agents and keeps bindings. An
// agent has the permissions of its node.
func TestAuthOnTheGeneratedConfiguration(t *testing.T) {
	c := bustest.ServeCluster(t, true, natsconf.Cluster{Name: "prod", Pools: []natsconf.Pool{{Name: "web"}}})
	pool, err := jetstream.New(c.Connect(t, roles.User{Role: roles.Pool, Cluster: "prod", Pool: "web"}))
	if err != nil {
		t.Fatal(err)
	}
	bucket := names.StateBucket("prod")
	if _, err := pool.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "KV_" + bucket, Subjects: []string{"$KV." + bucket + ".>"}, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, Replicas: 3,
		AllowDirect: true, DenyDelete: true, DenyPurge: true, AllowMsgTTL: true,
	}); err != nil {
		t.Fatal(err)
	}
	conn := c.Connect(t, roles.User{Role: roles.Auth, Cluster: "prod"})
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"UABC", "UDEF"} {
		if bound, err := (bindings{js, "prod"}).Bind(t.Context(), "i-1", key); bound != "UABC" || err != nil {
			t.Errorf("Bind(%s) = %q, %v, want UABC", key, bound, err)
		}
	}
	seed, err := c.Issuer().Seed()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	issuer, secret := filepath.Join(dir, "issuer.nk"), filepath.Join(dir, "secrets")
	for path, text := range map[string]string{issuer: string(seed), secret: strings.Repeat("a", 40)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	log := slog.New(slog.DiscardHandler)
	p := Process{Conn: conn, Streams: js, Configs: dir, Cluster: "prod", Log: log, Config: config.Auth{
		Account: roles.AccountWeir, IssuerKeyFile: issuer,
		Verifiers: config.Verifiers{Values: map[string]identity.Settings{"sharedsecret": &sharedsecret.Settings{KeyFile: secret, Pools: []string{"web"}}}},
	}}
	wg.Go(func() {
		if err := p.Run(ctx, "", io.Discard); err != nil {
			t.Error(err)
		}
	})
	settings := config.Identity{Value: &sharedsecret.ProverSettings{KeyFile: secret}, Keys: []string{"sharedsecret"}}
	login, err := Login(t.Context(), settings, identity.Claim{Cluster: "prod", Pool: "web", Node: "i-1"}, dir, log)
	if err != nil {
		t.Fatal(err)
	}
	connected := make(chan struct{}, 1)
	apply := func(o *nats.Options) error {
		o.ConnectedCB = func(*nats.Conn) { connected <- struct{}{} }
		return login.Apply(o)
	}
	heartbeats, err := c.Connect(t, roles.User{Role: roles.Harmonizer, Cluster: "prod"}).SubscribeSync("weir.prod.heartbeat.*")
	if err != nil {
		t.Fatal(err)
	}
	agent := bustest.Connect(t, c.URLs(), nats.Secure(c.TLS()), apply)
	<-connected
	forbidden := make(chan error, 1)
	agent.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { forbidden <- err })
	for _, node := range []string{"i-2", "i-1"} {
		if err := agent.Publish("weir.prod.heartbeat."+node, nil); err != nil {
			t.Fatal(err)
		}
	}
	if m, err := heartbeats.NextMsg(natsTimeout); err != nil || m.Subject != "weir.prod.heartbeat.i-1" {
		t.Errorf("first heartbeat = %v, %v, want that of the agent's own node", m, err)
	}
	if err := <-forbidden; !strings.Contains(err.Error(), "heartbeat.i-2") {
		t.Errorf("heartbeat of another node = %v, want a violation", err)
	}
}
