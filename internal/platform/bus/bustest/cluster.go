package bustest

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natscert"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsconf"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
)

// pollEvery is the interval between two checks of a server's state, which has no event.
const pollEvery = 5 * time.Millisecond

// servers is the number of servers of a Cluster.
const servers = 3

// Cluster is three NATS servers with TLS, JetStream, and the accounts and permissions of natsconf.
type Cluster struct {
	Site   natsconf.Site
	folder string
	ca     *x509.CertPool
	seeds  map[string]nkeys.KeyPair // by the name of the user
	issuer nkeys.KeyPair
}

// ServeCluster runs the three servers in this process until the test ends. When it returns, a stream with three
// replicas can be created. If callout is set, agents have no keys: a user of the role auth must verify them.
func ServeCluster(tb testing.TB, callout bool, clusters ...natsconf.Cluster) *Cluster {
	tb.Helper()
	return serveCluster(tb, newCluster(tb, callout, loopback(), clusters, unedited))
}

// ServeEdited is ServeCluster with keys of all users, and accounts that edit has changed.
func ServeEdited(tb testing.TB, edit func(accounts string) string, clusters ...natsconf.Cluster) *Cluster {
	tb.Helper()
	return serveCluster(tb, newCluster(tb, false, loopback(), clusters, edit))
}

func serveCluster(tb testing.TB, c *Cluster) *Cluster {
	tb.Helper()
	var running []*server.Server
	for _, own := range c.Site.Servers {
		options, err := server.ProcessConfigFile(c.conf(own.Name))
		if err != nil {
			tb.Fatal(err)
		}
		options.NoSigs, options.NoLog = true, true
		s, err := server.NewServer(options)
		if err != nil {
			tb.Fatal(err)
		}
		running = append(running, s)
	}
	runServers(tb, running)
	return c
}

// runServers runs the servers of a cluster until the test ends, and waits until all take part in JetStream.
func runServers(tb testing.TB, running []*server.Server) {
	tb.Helper()
	tb.Cleanup(func() {
		for _, s := range running {
			s.Shutdown()
		}
		for _, s := range running {
			s.WaitForShutdown()
		}
	})
	for _, s := range running {
		go s.Start() // ends when the server listens
	}
	for _, s := range running {
		if !s.ReadyForConnections(patience) {
			tb.Fatalf("NATS server %s does not accept connections within %v", s.Name(), patience)
		}
	}
	until(tb, "the cluster has no JetStream leader with three servers", func() bool {
		for _, s := range running {
			if !ready(s, servers) {
				return false
			}
		}
		return true
	})
}

// ready reports whether the server takes part in JetStream. If it is the leader, it also counts that many servers.
func ready(s *server.Server, known int) bool {
	return s.JetStreamIsCurrent() && (!s.JetStreamIsLeader() || len(s.JetStreamClusterPeers()) >= known)
}

// until waits for a state that has no event.
func until(tb testing.TB, problem string, ok func() bool) {
	tb.Helper()
	end := time.NewTimer(patience)
	defer end.Stop()
	again := time.NewTicker(pollEvery)
	defer again.Stop()
	for !ok() {
		select {
		case <-again.C:
		case <-end.C:
			tb.Fatalf("%s within %v", problem, patience)
		}
	}
}

// loopback returns the hosts of servers that share one address.
func loopback() []string { return []string{"127.0.0.1", "127.0.0.1", "127.0.0.1"} }

// Configure writes the files of three servers, each with an address of its own, and starts none. Cluster.Command starts
// one.
func Configure(tb testing.TB, hosts []string, clusters ...natsconf.Cluster) *Cluster {
	tb.Helper()
	return newCluster(tb, false, hosts, clusters, unedited)
}

// newCluster writes the files of the servers on these hosts.
func newCluster(tb testing.TB, callout bool, hosts []string, clusters []natsconf.Cluster, edit func(accounts string) string) *Cluster {
	tb.Helper()
	c := &Cluster{folder: tb.TempDir(), ca: x509.NewCertPool(), seeds: map[string]nkeys.KeyPair{}}
	c.Site = natsconf.Site{Clusters: clusters, Keys: map[string][]string{}}
	must := func(err error) {
		if err != nil {
			tb.Fatal(err)
		}
	}
	if callout {
		var err error
		c.issuer, err = nkeys.CreateAccount()
		must(err)
		c.Site.Issuer, err = c.issuer.PublicKey()
		must(err)
	}
	c.addKeys(tb)
	c.Site.SystemKeys = []string{c.key(tb, roles.AccountSystem)}
	ports := Ports(tb, 2*servers)
	for i := range servers {
		name := fmt.Sprintf("n%d", i+1)
		folder := filepath.Join(c.folder, name)
		c.Site.Servers = append(c.Site.Servers, natsconf.Server{
			Name: name, Host: hosts[i], Listen: hosts[i], ClientPort: ports[2*i], RoutePort: ports[2*i+1],
			Folder: folder, Store: filepath.Join(folder, "store"),
		})
	}
	must(c.Site.Validate())
	ca, err := natscert.NewCA("test", time.Now())
	must(err)
	c.ca.AppendCertsFromPEM(ca.Cert)
	for _, own := range c.Site.Servers {
		cert, key, err := ca.Server(own.Name, []string{own.Host}, time.Now())
		must(err)
		must(os.Mkdir(own.Folder, 0o700))
		for file, text := range map[string]string{
			"ca.crt": string(ca.Cert), "server.crt": string(cert), "server.key": string(key),
			natsconf.AccountsFile: edit(c.Site.Accounts()), "nats.conf": bounded(c.Site.Server(own.Name)),
		} {
			must(os.WriteFile(filepath.Join(own.Folder, file), []byte(text), 0o600))
		}
	}
	return c
}

// key makes the key of a user.
func (c *Cluster) key(tb testing.TB, name string) (public string) {
	tb.Helper()
	pair, err := nkeys.CreateUser()
	if err == nil {
		public, err = pair.PublicKey()
	}
	if err != nil {
		tb.Fatal(err)
	}
	c.seeds[name] = pair
	return public
}

// addKeys makes the missing keys.
func (c *Cluster) addKeys(tb testing.TB) {
	tb.Helper()
	for _, u := range c.Site.Users() {
		if c.Site.Keys[u.Name()] == nil {
			c.Site.Keys[u.Name()] = []string{c.key(tb, u.Name())}
		}
	}
}

// Change changes the site, makes the missing keys, and writes the accounts of all servers, which read them at a reload.
func (c *Cluster) Change(tb testing.TB, change func(*natsconf.Site)) {
	tb.Helper()
	change(&c.Site)
	c.addKeys(tb)
	for _, own := range c.Site.Servers {
		if err := os.WriteFile(filepath.Join(own.Folder, natsconf.AccountsFile), []byte(c.Site.Accounts()), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
}

// bounded returns a configuration with the bound of the streams of tests. A reload may not change it, so it is in the file.
func bounded(conf string) string {
	return strings.Replace(conf, "jetstream {", fmt.Sprintf("jetstream {\n  max_file_store: %d", MaxStore), 1)
}

func (c *Cluster) conf(name string) string { return filepath.Join(c.folder, name, "nats.conf") }

// CAFile returns the file of the certificate authority.
func (c *Cluster) CAFile() string { return filepath.Join(c.Site.Servers[0].Folder, "ca.crt") }

// Issuer returns the account key that signs the users of agents.
func (c *Cluster) Issuer() nkeys.KeyPair { return c.issuer }

// Seed returns the key of a user: roles.User.Name, or roles.AccountSystem.
func (c *Cluster) Seed(tb testing.TB, user string) nkeys.KeyPair {
	tb.Helper()
	if c.seeds[user] == nil {
		tb.Fatalf("the cluster has no user %s", user)
	}
	return c.seeds[user]
}

// URL returns the address of the i-th server, from 0.
func (c *Cluster) URL(i int) string {
	return fmt.Sprintf("tls://%s:%d", c.Site.Servers[i].Host, c.Site.Servers[i].ClientPort)
}

// URLs returns the addresses of all servers, separated by commas.
func (c *Cluster) URLs() string {
	var all []string
	for i := range c.Site.Servers {
		all = append(all, c.URL(i))
	}
	return strings.Join(all, ",")
}

// TLS returns what a client needs to trust the servers.
func (c *Cluster) TLS() *tls.Config { return &tls.Config{RootCAs: c.ca, MinVersion: tls.VersionTLS12} }

// Connect returns a connection to any server as this user, with its inbox prefix. The options are applied last.
func (c *Cluster) Connect(tb testing.TB, u roles.User, options ...nats.Option) *nats.Conn {
	tb.Helper()
	return c.connect(tb, u.Name(), append([]nats.Option{nats.CustomInboxPrefix(u.InboxPrefix())}, options...))
}

// ConnectSystem returns a connection as the administrator of the servers.
func (c *Cluster) ConnectSystem(tb testing.TB, options ...nats.Option) *nats.Conn {
	tb.Helper()
	return c.connect(tb, roles.AccountSystem, options)
}

func (c *Cluster) connect(tb testing.TB, user string, options []nats.Option) *nats.Conn {
	tb.Helper()
	pair := c.Seed(tb, user)
	public, err := pair.PublicKey()
	if err != nil {
		tb.Fatal(err)
	}
	return Connect(tb, c.URLs(), append([]nats.Option{
		nats.Nkey(public, pair.Sign), nats.Secure(c.TLS()), nats.Name(user), nats.Timeout(10 * time.Second),
	}, options...)...)
}

func unedited(accounts string) string { return accounts }
