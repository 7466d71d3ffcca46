package authd_test

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
	"github.com/weirkeeper/weirkeeper/internal/daemon/authd"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natscert"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity"
)

// authority is a certificate authority of the test.
type authority struct {
	cert   string // PEM
	server tls.Certificate
}

func newAuthority(t *testing.T, name string) authority {
	t.Helper()
	now := time.Now()
	ca, err := natscert.NewCA(name, now)
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := ca.Server("n1", []string{"127.0.0.1"}, now)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return authority{string(ca.Cert), pair}
}

// An agent that proves its identity follows a change of the authority: first the file has both authorities, then the
// server has a certificate of the new one.
func TestAgentWithIdentityFollowsNewAuthority(t *testing.T) {
	before, after := newAuthority(t, "before"), newAuthority(t, "after")
	var shown atomic.Pointer[tls.Certificate]
	shown.Store(&before.server)
	_, issuer, issuerFile := pair(t, nkeys.CreateAccount)
	_, userKey, userFile := pair(t, nkeys.CreateUser)
	accounts := []*server.Account{server.NewAccount("AUTH"), server.NewAccount("AGENTS:prod:web")}
	s := bustest.Serve(t, server.Options{
		Accounts: accounts, AuthTimeout: 3, Nkeys: []*server.NkeyUser{{Nkey: userKey, Account: accounts[0]}},
		AuthCallout: &server.AuthCallout{Issuer: issuer, Account: "AUTH", AuthUsers: []string{userKey}},
		TLS:         true, TLSTimeout: 60, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return shown.Load(), nil
		}},
	})
	dir, data := t.TempDir(), t.TempDir()
	ca, secret := write(t, dir, "ca.crt", before.cert), write(t, dir, "secrets", strings.Repeat("a", 40))
	write(t, dir, "weir.yaml", fmt.Sprintf("auth:\n  issuer_key_file: %s\n  verifiers:\n    sharedsecret: {key_file: %s, pools: [web]}\n"+
		"identity:\n  sharedsecret: {key_file: %s}\n", issuerFile, secret, secret))
	service, err := config.LoadService(dir)
	if err != nil {
		t.Fatal(err)
	}
	log := new(output)
	open := func(c bus.Config) *bus.Bus {
		c.NATS.Servers, c.NATS.TLS = []string{s.ClientURL()}, bus.TLS{CAFile: ca}
		c.Name, c.FilesEvery, c.ReconnectWait = "test", 10*time.Millisecond, 10*time.Millisecond
		b, err := bus.Find(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		return b
	}
	discard := slog.New(slog.DiscardHandler)
	runAuth(t, authd.Process{Bus: open(bus.Config{NATS: bus.NATS{NKeyFile: userFile}, Log: discard}), Config: service.Auth, Cluster: "prod", Log: discard},
		admin.Config{Daemon: config.DaemonAuth, Flag: config.AdminOff, Log: discard})
	lines := slog.New(slog.NewTextHandler(log, nil))
	login, err := authd.Login(t.Context(), service.Identity, identity.Claim{Cluster: "prod", Pool: "web", Node: "i-01"}, data)
	if err != nil {
		t.Fatal(err)
	}
	agent := open(bus.Config{Log: lines, Login: login.Apply})
	wait(t, "the agent connects", agent.Conn().IsConnected)
	first, err := agent.Conn().GetClientID()
	if err != nil {
		t.Fatal(err)
	}

	replace(t, ca, before.cert+after.cert)
	wait(t, "the renewal", func() bool {
		if err := agent.Problem(); err != nil {
			t.Fatalf("Problem = %v\n%s", err, log)
		}
		id, err := agent.Conn().GetClientID()
		return err == nil && id != first
	})
	second, err := agent.Conn().GetClientID()
	if err != nil {
		t.Fatal(err)
	}
	shown.Store(&after.server)
	if err := agent.Conn().ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	wait(t, "a connection to the server of the new authority", func() bool {
		id, err := agent.Conn().GetClientID()
		return err == nil && id != second && agent.Conn().IsConnected()
	})
	if strings.Contains(log.String(), "rejected") {
		t.Errorf("the log has a rejection:\n%s", log)
	}
}

// replace replaces a file as an operator's tool does.
func replace(t *testing.T, path, text string) {
	t.Helper()
	if err := os.Rename(write(t, filepath.Dir(path), "new", text), path); err != nil {
		t.Fatal(err)
	}
}
