package authd

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsconf"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity/sharedsecret"
)

// On the generated configuration, with three servers and TLS, the role auth verifies agents and keeps bindings. An
// agent has the permissions of its node.
func TestAuthOnTheGeneratedConfiguration(t *testing.T) {
	c := bustest.ServeCluster(t, true, natsconf.Cluster{Name: "prod", Pools: []natsconf.Pool{{Name: "web"}}})
	js, err := jetstream.New(c.Connect(t, roles.User{Role: roles.Admin, Cluster: "prod"}))
	if err != nil {
		t.Fatal(err)
	}
	bustest.Streams(t, js, "prod", 3, "web")
	auth := roles.User{Role: roles.Auth, Cluster: "prod"}
	key, err := c.Seed(t, auth.Name()).Seed()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := c.Issuer().Seed()
	if err != nil {
		t.Fatal(err)
	}
	dir, files := t.TempDir(), map[string]string{}
	for name, text := range map[string]string{"issuer.nk": string(seed), "auth.nk": string(key), "secrets": strings.Repeat("a", 40)} {
		files[name] = filepath.Join(dir, name)
		if err := os.WriteFile(files[name], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	log := slog.New(slog.DiscardHandler)
	own, err := bus.Open(t.Context(), bus.Config{
		Name: "auth", Log: log, User: auth, NATS: bus.NATS{Servers: bus.Split(c.URLs()), NKeyFile: files["auth.nk"], TLS: bus.TLS{CAFile: c.CAFile()}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Close)
	for _, key := range []string{"UABC", "UDEF"} {
		if bound, err := (bindings{own.JetStream(), "prod"}).Bind(t.Context(), "i-1", key); bound != "UABC" || err != nil {
			t.Errorf("Bind(%s) = %q, %v, want UABC", key, bound, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	p := Process{Bus: own, Configs: dir, Cluster: "prod", Log: log, Config: config.Auth{
		IssuerKeyFile: files["issuer.nk"],
		Verifiers:     config.Verifiers{Values: map[string]identity.Settings{"sharedsecret": &sharedsecret.Settings{KeyFile: files["secrets"], Pools: []string{"web"}}}},
	}}
	wg.Go(func() {
		if err := p.Run(ctx, admin.Config{Daemon: config.DaemonAuth, Flag: config.AdminOff, Log: log}); err != nil {
			t.Error(err)
		}
	})
	settings := config.Identity{Value: &sharedsecret.ProverSettings{KeyFile: files["secrets"]}, Keys: []string{"sharedsecret"}}
	login, err := Login(t.Context(), settings, identity.Claim{Cluster: "prod", Pool: "web", Node: "i-1"}, dir)
	if err != nil {
		t.Fatal(err)
	}
	connected := make(chan struct{}, 1)
	apply := func(o *nats.Options) error {
		o.ConnectedCB = func(*nats.Conn) { connected <- struct{}{} }
		return login.Apply(o)
	}
	harmonizer := c.Connect(t, roles.User{Role: roles.Harmonizer, Cluster: "prod"})
	heartbeats, err := harmonizer.SubscribeSync("weir.prod.heartbeat.*.*")
	if err = errors.Join(err, harmonizer.Flush()); err != nil {
		t.Fatal(err)
	}
	// The agent has the same server, because the others learn of a subscription later.
	agent := bustest.Connect(t, harmonizer.ConnectedUrl(), nats.Secure(c.TLS()), apply)
	<-connected
	forbidden := make(chan error, 1)
	agent.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { forbidden <- err })
	for _, node := range []string{"i-2", "i-1"} {
		if err := agent.Publish("weir.prod.heartbeat.web."+node, nil); err != nil {
			t.Fatal(err)
		}
	}
	if m, err := heartbeats.NextMsg(natsTimeout); err != nil || m.Subject != "weir.prod.heartbeat.web.i-1" {
		t.Errorf("first heartbeat = %v, %v, want that of the agent's own node", m, err)
	}
	if err := <-forbidden; !strings.Contains(err.Error(), "heartbeat.web.i-2") {
		t.Errorf("heartbeat of another node = %v, want a violation", err)
	}
}
