package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
	"github.com/weirkeeper/weirkeeper/internal/daemon/authd"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/authcallout"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity"
)

// keyPair returns a public key and the file of its seed.
func keyPair(t *testing.T, dir, name string, create func() (nkeys.KeyPair, error)) (public, file string) {
	t.Helper()
	pair, err := create()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := pair.Seed()
	if err == nil {
		public, err = pair.PublicKey()
	}
	file = filepath.Join(dir, name)
	if err == nil {
		err = os.WriteFile(file, seed, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return public, file
}

// calloutServer runs a server whose agents "weir auth" verifies by a secret, until the test ends.
func calloutServer(t *testing.T, secret string) (url string) {
	t.Helper()
	dir := t.TempDir()
	issuer, issuerFile := keyPair(t, dir, "issuer.nk", nkeys.CreateAccount)
	user, userFile := keyPair(t, dir, "auth.nk", nkeys.CreateUser)
	accounts := []*server.Account{server.NewAccount("AUTH"), server.NewAccount("AGENTS:prod:web"), server.NewAccount("AGENTS:prod:db")}
	s := bustest.Serve(t, server.Options{
		Accounts: accounts, AuthTimeout: patience.Seconds(), Nkeys: []*server.NkeyUser{{Nkey: user, Account: accounts[0]}},
		AuthCallout: &server.AuthCallout{Issuer: issuer, Account: "AUTH", AuthUsers: []string{user}},
	})
	text := fmt.Sprintf("auth:\n  issuer_key_file: %s\n  verifiers:\n    sharedsecret: {key_file: %s, pools: [web]}\n", issuerFile, secret)
	if err := os.WriteFile(filepath.Join(dir, "weir.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	service, err := config.LoadService(dir)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	b, err := bus.Find(t.Context(), bus.Config{NATS: bus.NATS{Servers: []string{s.ClientURL()}, NKeyFile: userFile}, Name: "auth", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		p := authd.Process{Bus: b, Config: service.Auth, Configs: dir, Cluster: "prod", Log: log}
		if err := p.Run(ctx, admin.Config{Daemon: config.DaemonAuth, Flag: config.AdminOff, Log: log}); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait(); b.Close() })
	eventually(t, "weir auth that receives logins", func() error {
		clients, err := s.Connz(&server.ConnzOptions{Subscriptions: true})
		if err == nil && !slices.ContainsFunc(clients.Conns, func(c *server.ConnInfo) bool { return slices.Contains(c.Subs, authcallout.Subject) }) {
			err = errors.New("none")
		}
		return err
	})
	return s.ClientURL()
}

// On a machine with a section "identity", doctor connects as the agent does, and names a refused identity.
func TestDoctorProvesTheIdentityOfTheMachine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := map[string]string{}
	for name, letter := range map[string]string{"right": "a", "forged": "b"} {
		files[name] = filepath.Join(dir, name)
		if err := os.WriteFile(files[name], []byte(strings.Repeat(letter, 40)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	url := calloutServer(t, files["right"])
	const refusal = `"weir auth" refuses the identity of identity.sharedsecret: its log has the reason`
	for name, tc := range map[string]struct {
		secret, pool string
		key          bool // the agent has made its key
		want         []string
	}{
		"right":        {"right", "web", true, []string{"ok       role: prod.agent.web.i-01 (role agent) has all"}},
		"forged":       {"forged", "web", true, []string{"failed   nats server: " + url + ": nats: Authorization Violation", refusal}},
		"foreign pool": {"right", "db", true, []string{"failed   nats server: " + url + ": nats: Authorization Violation", refusal}},
		"no key":       {"right", "web", false, []string{"find the agent's nkey", "name its data folder with --data"}},
	} {
		t.Run(name, func(t *testing.T) {
			configs, data := muteConfig(t), t.TempDir()
			text := fmt.Sprintf("nats: {servers: [%q]}\nidentity:\n  sharedsecret: {key_file: %s}\nagent: {cluster: prod, pool: %s, group: rack, id: i-01, metadata: \"off\"}\n",
				url, files[tc.secret], tc.pool)
			if err := os.WriteFile(filepath.Join(configs, "weir.yaml"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if tc.key {
				if _, err := identity.OpenKey(data, "i-01"); err != nil {
					t.Fatal(err)
				}
			}
			began := time.Now()
			r := weir("doctor", "--data", data, "--config-dir", configs)
			for _, want := range tc.want {
				if !strings.Contains(r.stdout, want) {
					t.Errorf("weir doctor lacks %q after %v:\n%s%s", want, time.Since(began), r.stdout, r.stderr)
				}
			}
			if _, err := os.Stat(identity.KeyFile(data, "i-01")); !tc.key && err == nil {
				t.Error("doctor created a key")
			}
		})
	}
}
