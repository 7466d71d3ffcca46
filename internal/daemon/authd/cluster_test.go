package authd

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsconf"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity/sharedsecret"
)

// generated is a cluster with the generated configuration, and the role auth that verifies its agents and the daemons of its pools.
type generated struct {
	*bustest.Cluster
	bus     *bus.Bus // of auth
	folder  string
	secrets string // file of the agents' secrets
	daemons string // file of the keys of the pools' daemons
}

var prod = natsconf.Cluster{Name: "prod", Pools: []natsconf.Pool{{Name: "web"}}}

// serveAuth runs the role auth for a cluster until the test ends.
func serveAuth(t *testing.T, c *bustest.Cluster) generated {
	t.Helper()
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
	daemons, err := c.Site.Daemons()
	if err != nil {
		t.Fatal(err)
	}
	g := generated{Cluster: c, folder: t.TempDir()}
	files := map[string]string{}
	for name, text := range map[string]string{
		"issuer.nk": string(seed), "auth.nk": string(key), "secrets": strings.Repeat("a", 40), natsconf.DaemonsFile: string(daemons),
	} {
		files[name] = filepath.Join(g.folder, name)
		if err := os.WriteFile(files[name], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g.secrets, g.daemons = files["secrets"], files[natsconf.DaemonsFile]
	log := slog.New(slog.DiscardHandler)
	g.bus, err = bus.Open(t.Context(), bus.Config{
		Name: "auth", Log: log, User: auth, NATS: bus.NATS{Servers: bus.Split(c.URLs()), NKeyFile: files["auth.nk"], TLS: bus.TLS{CAFile: c.CAFile()}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.bus.Close)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	p := Process{Bus: g.bus, Configs: g.folder, Cluster: "prod", Log: log, Config: config.Auth{
		IssuerKeyFile: files["issuer.nk"], DaemonsFile: g.daemons,
		Verifiers: config.Verifiers{Values: map[string]identity.Settings{"sharedsecret": &sharedsecret.Settings{KeyFile: g.secrets, Pools: []string{"web"}}}},
	}}
	wg.Go(func() {
		if err := p.Run(ctx, admin.Config{Daemon: config.DaemonAuth, Flag: config.AdminOff, Log: log}); err != nil {
			t.Error(err)
		}
	})
	return g
}

// On the generated configuration, with three servers and TLS, the role auth verifies agents and keeps bindings. An
// agent has the permissions of its node.
func TestAuthOnTheGeneratedConfiguration(t *testing.T) {
	c := serveAuth(t, bustest.ServeCluster(t, true, prod))
	for _, key := range []string{"UABC", "UDEF"} {
		if bound, err := (bindings{c.bus.JetStream(), "prod"}).Bind(t.Context(), "i-1", key); bound != "UABC" || err != nil {
			t.Errorf("Bind(%s) = %q, %v, want UABC", key, bound, err)
		}
	}
	settings := config.Identity{Value: &sharedsecret.ProverSettings{KeyFile: c.secrets}, Keys: []string{"sharedsecret"}}
	login, err := Login(t.Context(), settings, identity.Claim{Cluster: "prod", Pool: "web", Node: "i-1"}, c.folder)
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

// The servers end the connections of a revoked key when they read their configuration again, and accept the key no more: of a
// user in their files, and of a daemon that the role auth verifies.
func TestRevokedKeysEndAtAReload(t *testing.T) {
	servers := bustest.StartProcesses(t, true, prod)
	c := serveAuth(t, servers.Cluster)
	operator, pool := roles.User{Role: roles.Operator, Cluster: "prod"}, roles.User{Role: roles.Pool, Cluster: "prod", Pool: "web"}
	lost := map[string]chan error{}
	for _, u := range []roles.User{operator, pool} {
		lost[u.Name()] = make(chan error, 1)
		c.Connect(t, u, nats.NoReconnect(), nats.ClosedHandler(func(nc *nats.Conn) { lost[u.Name()] <- nc.LastError() }))
	}
	kept := c.Connect(t, roles.User{Role: roles.Viewer, Cluster: "prod"}, nats.NoReconnect())
	site := c.Site
	site.Keys, site.Revoked = maps.Clone(site.Keys), map[string][]string{}
	for _, u := range []roles.User{operator, pool} {
		site.Revoked[u.Name()] = site.Keys[u.Name()]
		delete(site.Keys, u.Name())
	}
	daemons, err := site.Daemons()
	if err == nil {
		err = os.WriteFile(c.daemons, daemons, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range site.Servers {
		if err := os.WriteFile(filepath.Join(s.Folder, natsconf.AccountsFile), []byte(site.Accounts()), 0o600); err != nil {
			t.Fatal(err)
		}
		servers.Reload(t, i)
	}
	begun := time.Now()
	for name, ended := range lost {
		err := await.Value(t, name+": the end of the connection", ended)
		t.Logf("%s: its connection ended %v after the reloads: %v", name, time.Since(begun).Round(time.Millisecond), err)
	}
	for _, u := range []roles.User{operator, pool} {
		pair := c.Seed(t, u.Name())
		public, err := pair.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		for i := range site.Servers { // each reads its configuration on its own
			accepts := func() bool {
				nc, err := nats.Connect(c.URL(i), nats.Nkey(public, pair.Sign), nats.Secure(c.TLS()))
				if err == nil {
					nc.Close()
				}
				return err == nil
			}
			await.True(t, u.Name()+": server "+c.URL(i)+" refuses the revoked key", func() bool { return !accepts() })
		}
	}
	if err := kept.Flush(); err != nil {
		t.Errorf("the connection of another user: %v", err)
	}
}
