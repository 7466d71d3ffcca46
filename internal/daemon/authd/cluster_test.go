package authd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/streams"
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
func serveAuth(t testing.TB, c *bustest.Cluster) generated {
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
	heartbeats := bustest.SubscribeSync(t, c.Connect(t, roles.User{Role: roles.Harmonizer, Cluster: "prod"}, c.first), "weir.prod.heartbeat.*.*")
	agent := c.agent(t, "i-1")
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

// A revoked key is of no use from the moment at which the servers have read their configuration again: they have ended its
// connections, and accept it no more. It is that of a user in their files, of a daemon that the role auth verifies, or the
// secret of an agent.
func TestRevokedKeysEndAtAReload(t *testing.T) {
	servers := bustest.StartProcesses(t, true, prod)
	c := serveAuth(t, servers.Cluster)
	operator, pool := roles.User{Role: roles.Operator, Cluster: "prod"}, roles.User{Role: roles.Pool, Cluster: "prod", Pool: "web"}
	connections := map[string]*nats.Conn{"agent": c.agent(t, "i-1", nats.NoReconnect())}
	for _, u := range []roles.User{operator, pool} {
		connections[u.Name()] = c.Connect(t, u, nats.NoReconnect())
	}
	for who, nc := range connections {
		if err := nc.Flush(); err != nil {
			t.Fatalf("%s before: %v", who, err)
		}
	}
	kept := c.Connect(t, roles.User{Role: roles.Viewer, Cluster: "prod"}, nats.NoReconnect())
	c.Change(t, func(site *natsconf.Site) {
		site.Revoked = map[string][]string{}
		for _, u := range []roles.User{operator, pool} {
			site.Revoked[u.Name()], site.Keys[u.Name()] = site.Keys[u.Name()], []string{}
		}
	})
	c.writeDaemons(t)
	secret := filepath.Join(c.folder, "stolen")
	err := os.Rename(c.secrets, secret)
	if err == nil {
		err = os.WriteFile(c.secrets, []byte(strings.Repeat("b", 40)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	for i := range c.Site.Servers {
		servers.Reload(t, i)
	}
	t.Logf("the reload of three servers took %v", time.Since(begun).Round(time.Millisecond))
	for who, nc := range connections {
		if err := nc.Flush(); err == nil {
			t.Errorf("%s: a message of its revoked key was accepted after the reload", who)
		}
	}
	t.Logf("all connections had ended %v after the begin of the first reload", time.Since(begun).Round(time.Millisecond))
	for i := range c.Site.Servers { // each reads its configuration on its own
		for _, u := range []roles.User{operator, pool} {
			if err := c.login(t, i, u); err == nil {
				t.Errorf("server %d accepts the revoked key of %s", i, u.Name())
			}
		}
		once := func(o *nats.Options) error { o.RetryOnFailedConnect = false; return nil }
		if nc, err := nats.Connect(c.URL(i), nats.Secure(c.TLS()), c.proves(t, "i-1", secret), once); err == nil {
			nc.Close()
			t.Errorf("server %d accepts an agent with the revoked secret", i)
		}
	}
	if err := kept.Flush(); err != nil {
		t.Errorf("the connection of another user: %v", err)
	}
}

// A pool comes and another goes while the servers run. The new one reaches the streams after the second reload. The one that is
// taken away loses its connections at the first, and its streams stay. The users in the files of the servers lose no connection.
// Those that the role auth verifies connect again by themselves: a reload ends their connections.
func TestPoolsComeAndGo(t *testing.T) {
	named := func(pools ...string) (all []natsconf.Pool) {
		for _, name := range pools {
			all = append(all, natsconf.Pool{Name: name})
		}
		return all
	}
	servers := bustest.StartProcesses(t, true, natsconf.Cluster{Name: "prod", Pools: named("batch", "web")})
	c := serveAuth(t, servers.Cluster)
	admin, err := jetstream.New(c.Connect(t, roles.User{Role: roles.Admin, Cluster: "prod"}))
	if err != nil {
		t.Fatal(err)
	}
	bustest.Streams(t, admin, "prod", 3, "batch")
	batch, night := poolUser("batch"), poolUser("night")
	harmonizer := c.Connect(t, roles.User{Role: roles.Harmonizer, Cluster: "prod"}, nats.NoReconnect(), c.first)
	operator := c.Connect(t, roles.User{Role: roles.Operator, Cluster: "prod"}, nats.NoReconnect())
	agent, web := c.agent(t, "i-1"), c.Connect(t, poolUser("web"))
	heartbeats := bustest.SubscribeSync(t, harmonizer, "weir.prod.heartbeat.*.*")
	works := func(when string) {
		t.Helper()
		if err := errors.Join(harmonizer.Flush(), operator.Flush()); err != nil {
			t.Errorf("%s: a user of the servers' files: %v", when, err)
		}
		await.Nil(t, when+": pool web reads its bucket", func() error { return readsSchema(web, "web") })
		await.Nil(t, when+": a heartbeat arrives", func() error {
			if err := agent.Publish("weir.prod.heartbeat.web.i-1", []byte(when)); err != nil {
				return err
			}
			for {
				if m, err := heartbeats.NextMsg(time.Second); err != nil || string(m.Data) == when {
					return err
				}
			}
		})
	}
	reload := func(when string) {
		t.Helper()
		begun := time.Now()
		for i := range c.Site.Servers {
			servers.Reload(t, i)
		}
		took := time.Since(begun)
		works(when)
		t.Logf("%s took %v; all worked after %v", when, took.Round(time.Millisecond), time.Since(begun).Round(time.Millisecond))
	}
	works("before")

	c.Change(t, func(site *natsconf.Site) { site.Clusters[0].Pools = named("batch", "night", "web") })
	c.writeDaemons(t)
	for i := range c.Site.Servers {
		if err := c.login(t, i, night); !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("server %d without the account of the pool: %v, want a refusal", i, err)
		}
	}
	reload("the first reload with a new pool")
	first := c.Connect(t, night)
	await.Nil(t, "pool night has no responders after one reload", func() error {
		if err := readsSchema(first, "night"); !errors.Is(err, nats.ErrNoResponders) {
			return fmt.Errorf("the answer is %v", err)
		}
		return nil
	})
	reload("the second reload with a new pool")
	bustest.Streams(t, admin, "prod", 3, "night")
	await.Nil(t, "pool night reads its bucket after two reloads", func() error { return readsSchema(first, "night") })

	gone := c.Connect(t, batch, nats.NoReconnect())
	await.Nil(t, "pool batch reads its bucket", func() error { return readsSchema(gone, "batch") })
	c.Change(t, func(site *natsconf.Site) { site.Clusters[0].Pools = named("night", "web") })
	c.writeDaemons(t)
	reload("the reload that takes a pool away")
	if err := gone.Flush(); err == nil {
		t.Error("the connection of pool batch outlived its account")
	}
	for i := range c.Site.Servers {
		if err := c.login(t, i, batch); !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("server %d: pool batch that was taken away: %v, want a refusal", i, err)
		}
	}
	reload("one more reload")
	if _, err := admin.Stream(t.Context(), kvbucket.Stream(names.PoolBucket("prod", "batch"))); err != nil {
		t.Errorf("the bucket of the pool that was taken away: %v, want that it stays", err)
	}
}

func poolUser(pool string) roles.User {
	return roles.User{Role: roles.Pool, Cluster: "prod", Pool: pool}
}

// readsSchema reads a key that each pool has in its bucket. A reload may lose a request, so callers repeat it soon.
func readsSchema(nc *nats.Conn, pool string) error {
	bucket := names.PoolBucket("prod", pool)
	m, err := nc.Request("$JS.API.DIRECT.GET."+kvbucket.Stream(bucket)+".$KV."+bucket+"."+streams.SchemaKey, nil, 5*time.Second)
	if err == nil && m.Header.Get("Status") != "" {
		err = errors.New(m.Header.Get("Description"))
	}
	return err
}

// writeDaemons writes the keys of the pools' daemons, which the role auth reads again.
func (g generated) writeDaemons(t *testing.T) {
	t.Helper()
	text, err := g.Site.Daemons()
	if err == nil {
		err = os.WriteFile(g.daemons, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// login returns whether a server accepts the key of a user.
func (g generated) login(t *testing.T, server int, u roles.User) error {
	t.Helper()
	pair := g.Seed(t, u.Name())
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(g.URL(server), nats.Nkey(public, pair.Sign), nats.Secure(g.TLS()), nats.Timeout(natsTimeout))
	if err == nil {
		nc.Close()
	}
	return err
}

// proves returns the options of a node of pool web that proves its name by a secret.
func (g generated) proves(t testing.TB, node, secret string) nats.Option {
	t.Helper()
	settings := config.Identity{Value: &sharedsecret.ProverSettings{KeyFile: secret}, Keys: []string{"sharedsecret"}}
	login, err := Login(t.Context(), settings, identity.Claim{Cluster: "prod", Pool: "web", Node: node}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return login.Apply
}

// first makes a connection to the first server. The others learn of its subscriptions later.
func (g generated) first(o *nats.Options) error { o.Servers = []string{g.URL(0)}; return nil }

// agent returns the connection of a node of pool web to the first server. The options are applied last.
func (g generated) agent(t testing.TB, node string, options ...nats.Option) *nats.Conn {
	t.Helper()
	connected := make(chan struct{}, 1)
	ready := func(o *nats.Options) error {
		o.ConnectedCB = func(*nats.Conn) { connected <- struct{}{} }
		return nil
	}
	nc := bustest.Connect(t, g.URL(0), append([]nats.Option{nats.Secure(g.TLS()), g.proves(t, node, g.secrets), ready}, options...)...)
	await.Value(t, "the connection of the agent", connected)
	return nc
}
