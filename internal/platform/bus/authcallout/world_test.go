package authcallout_test

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

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/authcallout"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity/identitytest"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity/sharedsecret"
)

const (
	patience = await.Patience
	verifier = "sharedsecret"
)

// world is a cluster of servers with an auth callout, and the keys of its users.
type world struct {
	testing.TB
	servers       []*server.Server
	issuer, auth  nkeys.KeyPair // account key of the callout, user of the responders
	daemon        nkeys.KeyPair // static user of the account WEIR
	xkey          nkeys.KeyPair // nil: not encrypted
	static        []nkeys.KeyPair
	secret, other string // files of secrets
	dir           string
}

// newWorld starts servers that connect to each other. The static users need no callout.
func newWorld(tb testing.TB, size, static int, encrypt bool) *world {
	tb.Helper()
	w := &world{TB: tb, dir: tb.TempDir()}
	w.issuer, w.auth, w.daemon = identitytest.Key(tb, nkeys.CreateAccount), identitytest.Key(tb, nkeys.CreateUser), identitytest.Key(tb, nkeys.CreateUser)
	if encrypt {
		w.xkey = identitytest.Key(tb, nkeys.CreateCurveKeys)
	}
	for range static {
		w.static = append(w.static, identitytest.Key(tb, nkeys.CreateUser))
	}
	w.secret, w.other = w.file("secret", strings.Repeat("a", 40)), w.file("other", strings.Repeat("b", 40))
	for i := range size {
		w.servers = append(w.servers, bustest.Serve(tb, w.options(i, size)))
	}
	w.wait("the servers connect to each other", func() bool {
		for _, s := range w.servers {
			if s.NumRoutes() < size-1 {
				return false
			}
		}
		return true
	})
	return w
}

func (w *world) options(i, size int) server.Options {
	accounts := []*server.Account{server.NewAccount("AUTH"), server.NewAccount("WEIR"), server.NewAccount("SYS"), server.NewAccount(poolAccount)}
	user := func(pair nkeys.KeyPair, account int) *server.NkeyUser {
		return &server.NkeyUser{Nkey: identitytest.Public(w, pair), Account: accounts[account]}
	}
	o := server.Options{
		ServerName: fmt.Sprintf("n%d", i), Accounts: accounts, SystemAccount: "SYS", AuthTimeout: 3, MaxControlLine: 4096,
		Nkeys: []*server.NkeyUser{user(w.auth, 0), user(w.daemon, 1)},
		AuthCallout: &server.AuthCallout{
			Issuer: identitytest.Public(w, w.issuer), Account: "AUTH", AuthUsers: []string{identitytest.Public(w, w.auth), identitytest.Public(w, w.daemon)},
		},
	}
	for _, p := range w.static {
		o.Nkeys = append(o.Nkeys, user(p, 1))
		o.AuthCallout.AuthUsers = append(o.AuthCallout.AuthUsers, identitytest.Public(w, p))
	}
	if w.xkey != nil {
		o.AuthCallout.XKey = identitytest.Public(w, w.xkey)
	}
	if size > 1 {
		o.Cluster = server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: -1}
		if i > 0 {
			o.Routes = server.RoutesFromStr("nats://" + w.servers[0].ClusterAddr().String())
		}
	}
	return o
}

// file writes a file that only its owner may read.
func (w *world) file(name, text string) (path string) {
	w.Helper()
	path = filepath.Join(w.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
	return path
}

// wait waits until a condition holds.
func (w *world) wait(what string, holds func() bool) {
	w.Helper()
	check := time.NewTicker(5 * time.Millisecond)
	defer check.Stop()
	for limit := time.After(patience); !holds(); {
		select {
		case <-check.C:
		case <-limit:
			w.Fatalf("%s: not within %v", what, patience)
		}
	}
}

func (w *world) urls() string {
	var all []string
	for _, s := range w.servers {
		all = append(all, s.ClientURL())
	}
	return strings.Join(all, ",")
}

// connectAs connects a static user.
func (w *world) connectAs(p nkeys.KeyPair) *nats.Conn {
	w.Helper()
	return bustest.Connect(w, w.urls(), nats.Nkey(identitytest.Public(w, p), p.Sign))
}

// respond runs a responder until the test ends, or until stop is called.
func (w *world) respond(change func(*authcallout.Config)) (r *authcallout.Responder, stop func()) {
	w.Helper()
	kind := sharedsecret.Kind()
	v, err := kind.Open(w.Context(), identity.Site{Settings: &sharedsecret.Settings{KeyFile: w.secret, Pools: []string{"web"}}})
	if err != nil {
		w.Fatal(err)
	}
	c := authcallout.Config{
		Cluster: "prod", Issuer: w.issuer, XKey: w.xkey, Agent: agentUser,
		Verifiers: map[string]identity.Verifier{verifier: v}, Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&c)
	}
	if r, err = authcallout.New(c); err != nil {
		w.Fatal(err)
	}
	nc := w.connectAs(w.auth)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := r.Run(ctx, nc); err != nil && ctx.Err() == nil {
			w.Error(err)
		}
	})
	stop = func() { cancel(); wg.Wait() }
	w.Cleanup(stop)
	w.wait("a responder", func() bool { return r.Status().Ready })
	return r, stop
}

// poolAccount is the account of a pool's daemon.
const poolAccount = "POOL:prod:web"

// agentUser has the permissions of an agent, in short.
func agentUser(c identity.Claim) authcallout.User {
	u := authcallout.User{Name: c.Cluster + ".agent." + c.Pool + "." + c.Node, Account: "WEIR"}
	u.Permissions.Pub.Allow.Add("weir."+c.Cluster+".heartbeat."+c.Pool+"."+c.Node, "_INBOX_weir."+c.Cluster+".pool.>")
	u.Permissions.Sub.Allow.Add("weir."+c.Cluster+".agent."+c.Pool+"."+c.Node+".*", "weir."+c.Cluster+".announce")
	return u
}

// login returns the login of an agent that proves its identity by a file of secrets.
func (w *world) login(node, secret string) *identity.Login {
	w.Helper()
	p, err := sharedsecret.Kind().Prove(w.Context(), &sharedsecret.ProverSettings{KeyFile: secret})
	if err != nil {
		w.Fatal(err)
	}
	return &identity.Login{
		Claim: identity.Claim{Cluster: "prod", Pool: "web", Node: node}, Verifier: verifier, Prover: p,
		Key: identitytest.Key(w, nkeys.CreateUser),
	}
}

// dial makes one attempt to connect an agent. The options are changed last.
func (w *world) dial(l *identity.Login, change func(*nats.Options)) (*nats.Conn, error) {
	w.Helper()
	o := nats.GetDefaultOptions()
	o.Servers = strings.Split(w.urls(), ",")
	if err := l.Apply(&o); err != nil {
		w.Fatal(err)
	}
	o.RetryOnFailedConnect = false
	if change != nil {
		change(&o)
	}
	nc, err := o.Connect()
	if err == nil {
		w.Cleanup(nc.Close)
	}
	return nc, err
}

var errNoProof = errors.New("no proof")

// fixed is a prover with one proof.
type fixed struct{ proof any }

func (f fixed) Prove(context.Context, identity.Statement) (any, error) {
	if f.proof == nil {
		return nil, errNoProof
	}
	return f.proof, nil
}
