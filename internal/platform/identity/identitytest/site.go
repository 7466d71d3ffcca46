// Package identitytest connects agents to a real NATS server that has each of their logins verified.
//
// A [Site] is one server with an auth callout and the responder of "weir auth" over one verifier. It is for tests of the
// verifiers, which are otherwise called without a server:
//
//	site := identitytest.Serve(t, "sharedsecret", verifier)
//	conn, err := site.Connect(claim, prover, key)
//
// A Site may be used concurrently. It ends with the test.
package identitytest

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/authcallout"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity"
)

// agents is the account of the agents.
const agents = "AGENTS"

// Site is a server whose agents are verified.
type Site struct {
	testing.TB
	kind   string
	server *server.Server
}

// Serve starts a server and a responder with a verifier of that kind.
func Serve(tb testing.TB, kind string, v identity.Verifier) *Site {
	tb.Helper()
	issuer, user := Key(tb, nkeys.CreateAccount), Key(tb, nkeys.CreateUser)
	accounts := []*server.Account{server.NewAccount("AUTH"), server.NewAccount(agents)}
	s := &Site{TB: tb, kind: kind, server: bustest.Serve(tb, server.Options{
		Accounts: accounts, AuthTimeout: 3, MaxControlLine: 4096, Nkeys: []*server.NkeyUser{{Nkey: Public(tb, user), Account: accounts[0]}},
		AuthCallout: &server.AuthCallout{Issuer: Public(tb, issuer), Account: "AUTH", AuthUsers: []string{Public(tb, user)}},
	})}
	r, err := authcallout.New(authcallout.Config{
		Cluster: "prod", Issuer: issuer, Verifiers: map[string]identity.Verifier{kind: v}, Log: slog.New(slog.DiscardHandler),
		Agent: func(c identity.Claim) authcallout.User {
			u := authcallout.User{Name: c.Node, Account: agents}
			u.Permissions.Pub.Allow.Add(Heartbeat(c.Pool, c.Node))
			return u
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	nc := bustest.Connect(tb, s.server.ClientURL(), nats.Nkey(Public(tb, user), user.Sign))
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := r.Run(ctx, nc); err != nil && ctx.Err() == nil {
			tb.Error(err)
		}
	})
	tb.Cleanup(func() { cancel(); wg.Wait() })
	check := time.NewTicker(5 * time.Millisecond)
	defer check.Stop()
	for limit := time.After(time.Minute); !r.Status().Ready; {
		select {
		case <-check.C:
		case <-limit:
			tb.Fatal("the responder does not become ready")
		}
	}
	return s
}

// Heartbeat is the subject that an agent of the site may publish to.
func Heartbeat(pool, node string) string { return "weir.prod.heartbeat." + pool + "." + node }

// Connect makes one attempt to connect an agent that makes this claim, with a key of its own.
func (s *Site) Connect(c identity.Claim, p identity.Prover, key nkeys.KeyPair) (*nats.Conn, error) {
	s.Helper()
	o := nats.GetDefaultOptions()
	o.Servers = []string{s.server.ClientURL()}
	login := &identity.Login{Claim: c, Verifier: s.kind, Prover: p, Key: key}
	if err := login.Apply(&o); err != nil {
		s.Fatal(err)
	}
	o.RetryOnFailedConnect = false
	nc, err := o.Connect()
	if err == nil {
		s.Cleanup(nc.Close)
	}
	return nc, err
}

// Expect checks that an agent may publish the heartbeat of its node, and of no other.
func (s *Site) Expect(c identity.Claim, p identity.Prover, key nkeys.KeyPair) {
	s.Helper()
	nc, err := s.Connect(c, p, key)
	if err != nil {
		s.Fatalf("connect agent %s: %v", c.Node, err)
	}
	publish := func(node string) error {
		if err := nc.Publish(Heartbeat(c.Pool, node), nil); err != nil {
			return err
		}
		if err := nc.FlushTimeout(time.Minute); err != nil {
			return err
		}
		return nc.LastError()
	}
	if err := publish(c.Node); err != nil {
		s.Errorf("agent %s publishes its heartbeat: %v", c.Node, err)
	}
	if err := publish("another"); err == nil {
		s.Errorf("agent %s publishes the heartbeat of another node", c.Node)
	}
}

// Key returns a new pair of keys.
func Key(tb testing.TB, create func() (nkeys.KeyPair, error)) nkeys.KeyPair {
	tb.Helper()
	p, err := create()
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// Public returns the public key of a pair.
func Public(tb testing.TB, p nkeys.KeyPair) string {
	tb.Helper()
	key, err := p.PublicKey()
	if err != nil {
		tb.Fatal(err)
	}
	return key
}
