// Package bustest starts NATS servers for tests and connects to them. It is safe for concurrent use.
//
// [Serve] starts one server and [ServeCluster] a cluster with users and TLS. They listen on loopback addresses.
// The cleanup of the test stops them.
package bustest

import (
	"cmp"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
)

// patience bounds the start of a server on a busy machine.
const patience = time.Minute

// MaxStore bounds the streams of a server, in bytes. The default of the server is three quarters of the space that is free
// at its start, and streams reserve their limits in it.
const MaxStore = 1 << 50

// Serve runs a NATS server on loopback until the test ends, on a free port unless the options have one. When Serve
// returns, the server accepts connections.
func Serve(tb testing.TB, o server.Options) *server.Server {
	tb.Helper()
	o.Host, o.NoSigs, o.NoLog = "127.0.0.1", true, true
	if o.Port == 0 {
		o.Port = server.RANDOM_PORT
	}
	o.JetStreamMaxStore = cmp.Or(o.JetStreamMaxStore, MaxStore)
	s, err := server.NewServer(&o)
	if err != nil {
		tb.Fatal(err)
	}
	s.Start()
	tb.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(patience) {
		tb.Fatalf("the NATS server does not accept connections within %v", patience)
	}
	return s
}

// Callout returns the options of a server that sends unknown users to an auth callout without a responder.
func Callout(tb testing.TB) server.Options {
	tb.Helper()
	public := func(create func() (nkeys.KeyPair, error)) string {
		pair, err := create()
		if err != nil {
			tb.Fatal(err)
		}
		key, err := pair.PublicKey()
		if err != nil {
			tb.Fatal(err)
		}
		return key
	}
	auth, account := public(nkeys.CreateUser), server.NewAccount(roles.AccountAuth)
	return server.Options{
		AuthTimeout: 3, Accounts: []*server.Account{account}, Nkeys: []*server.NkeyUser{{Nkey: auth, Account: account}},
		AuthCallout: &server.AuthCallout{Issuer: public(nkeys.CreateAccount), Account: account.Name, AuthUsers: []string{auth}},
	}
}

// Connect returns a connection that is closed with the test. It reconnects without end. The options are applied last.
func Connect(tb testing.TB, url string, options ...nats.Option) *nats.Conn {
	tb.Helper()
	options = append([]nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond)}, options...)
	nc, err := nats.Connect(url, options...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(nc.Close)
	return nc
}

// Subscribe calls handle for each message on subject until the test ends. When it returns, the server has the
// subscription, so a message of any connection reaches it.
func Subscribe(tb testing.TB, nc *nats.Conn, subject string, handle nats.MsgHandler) {
	tb.Helper()
	sub, err := nc.Subscribe(subject, handle)
	known(tb, nc, sub, err)
}

// SubscribeSync returns a subscription of subject that ends with the test. When it returns, the server has it.
func SubscribeSync(tb testing.TB, nc *nats.Conn, subject string) *nats.Subscription {
	tb.Helper()
	sub, err := nc.SubscribeSync(subject)
	known(tb, nc, sub, err)
	return sub
}

// known waits until the server has a subscription.
func known(tb testing.TB, nc *nats.Conn, sub *nats.Subscription, err error) {
	tb.Helper()
	if err == nil {
		tb.Cleanup(func() { _ = sub.Unsubscribe() }) // fails only on a closed connection
		err = nc.Flush()
	}
	if err != nil {
		tb.Fatalf("subscribe: %v", err)
	}
}
