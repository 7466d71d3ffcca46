package bus_test

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsserver"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
)

// eventually waits until a condition holds, and fails with the text of last.
func eventually(t *testing.T, last func() string, holds func() bool) {
	t.Helper()
	check := time.NewTicker(5 * time.Millisecond)
	defer check.Stop()
	for limit := time.After(patience); !holds(); {
		select {
		case <-check.C:
		case <-limit:
			t.Fatalf("not within %v: %s", patience, last())
		}
	}
}

// wantWhy waits until Why has all words.
func wantWhy(t *testing.T, b *bus.Bus, words ...string) {
	t.Helper()
	text := func() string {
		if err := b.Why(); err != nil {
			return err.Error()
		}
		return ""
	}
	eventually(t, text, func() bool {
		for _, word := range words {
			if !strings.Contains(text(), word) {
				return false
			}
		}
		return true
	})
}

// A lost connection is explained by the last attempt: first no server runs, then another authority signs its certificate.
func TestLostConnectionIsExplained(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	s, log := bustest.Serve(t, ca.serverTLS(time.Now().Add(time.Hour))), newEvents()
	b := connectTo(t, bus.NATS{Servers: []string{s.ClientURL()}, TLS: bus.TLS{CAFile: ca.file}}, log)
	if err := b.Why(); err != nil {
		t.Errorf("Why = %v while connected", err)
	}
	_, port, err := net.SplitHostPort(s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s.Shutdown()
	s.WaitForShutdown()
	wantWhy(t, b, "connection refused", "start NATS there")

	o := other.serverTLS(time.Now().Add(time.Hour))
	if o.Port, err = strconv.Atoi(port); err != nil {
		t.Fatal(err)
	}
	bustest.Serve(t, o)
	wantWhy(t, b, "signed by unknown authority", "nats.tls.ca_file "+ca.file, "replace it")
}

// The log names an error of the TLS handshake, which the client library does not report.
func TestFailedHandshakeIsLogged(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	o := ca.serverTLS(time.Now().Add(time.Hour))
	foreign, _, _ := other.leaf(time.Now().Add(time.Hour))
	s, log := bustest.Serve(t, o), newEvents()
	b := connectTo(t, bus.NATS{Servers: []string{s.ClientURL()}, TLS: bus.TLS{CAFile: ca.file}}, log)
	next := other.serverTLS(time.Now().Add(time.Hour))
	next.Host, next.NoSigs, next.NoLog, next.TLSConfig.Certificates[0] = "127.0.0.1", true, true, foreign
	next.Port = s.Addr().(*net.TCPAddr).Port
	if err := s.ReloadOptions(&next); err != nil {
		t.Fatal(err)
	}
	if err := b.Conn().ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	if line := log.wait(t, "bus not reached"); !strings.Contains(line, "unknown authority") || !strings.Contains(line, "nats.tls.ca_file") {
		t.Errorf("logged %q, want the error and the key", line)
	}
}

// Rejected subscriptions are kept, at most 16, and made again when the server permits them.
func TestRejectedSubscriptionsAreMadeAgain(t *testing.T) {
	seed, public := user(t)
	options := func(p *server.Permissions) *server.Options {
		return &server.Options{Host: "127.0.0.1", NoSigs: true, NoLog: true, Nkeys: []*server.NkeyUser{{Nkey: public, Permissions: p}}}
	}
	s := bustest.Serve(t, *options(&server.Permissions{Subscribe: &server.SubjectPermission{Deny: []string{"secret.>"}}}))
	file := secret(t, seed)
	b := connectTo(t, bus.NATS{Servers: []string{s.ClientURL()}, NKeyFile: file}, io.Discard)
	denials := func() []*bus.Violation { subscriptions, _ := b.Denied(); return subscriptions }
	for i := range 20 {
		if _, err := b.Conn().SubscribeSync("secret." + strconv.Itoa(10+i)); err != nil {
			t.Fatal(err)
		}
	}
	denied := func() string { return "rejected: " + strconv.Itoa(len(denials())) }
	eventually(t, denied, func() bool { return len(denials()) == 16 })
	if got := denials()[0].Error(); !strings.Contains(got, "subscribe to secret.10") || !strings.Contains(got, "nats.nkey_file "+file) || !strings.Contains(got, "weir doctor") {
		t.Errorf("rejected: %s, want the subject, the file and what to do", got)
	}
	next := options(nil)
	next.Port = s.Addr().(*net.TCPAddr).Port
	if err := s.ReloadOptions(next); err != nil {
		t.Fatal(err)
	}
	eventually(t, denied, func() bool { return b.Conn().IsConnected() && len(denials()) == 0 })
	received, err := b.Conn().SubscribeSync("secret.30")
	if err == nil {
		err = b.Conn().Publish("secret.30", nil)
	}
	if err == nil {
		_, err = received.NextMsg(patience)
	}
	if err != nil {
		t.Error(err)
	}
}

// A message that a server rejects is kept too.
func TestRejectedMessagesAreKept(t *testing.T) {
	seed, public := user(t)
	s := bustest.Serve(t, server.Options{Host: "127.0.0.1", NoSigs: true, NoLog: true, Nkeys: []*server.NkeyUser{
		{Nkey: public, Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"secret.>"}}}},
	}})
	b := connectTo(t, bus.NATS{Servers: []string{s.ClientURL()}, NKeyFile: secret(t, seed)}, io.Discard)
	if err := b.Conn().Publish("secret.one", nil); err != nil {
		t.Fatal(err)
	}
	var denied []error
	eventually(t, func() string { return fmt.Sprint("rejected: ", denied) }, func() bool { _, denied = b.Denied(); return len(denied) == 1 })
	if got := denied[0].Error(); !strings.Contains(got, "publish to secret.one") {
		t.Errorf("rejected: %s", got)
	}
}

// A client of a data folder finds the next server there: it has another port and another secret.
func TestClientFindsTheNextServerOfItsFolder(t *testing.T) {
	for name, serve := range map[string]func(string, string, *slog.Logger) (bus.Server, error){"roles": natsserver.ServeRoles, "a token": natsserver.Serve} {
		t.Run(name, func(t *testing.T) {
			c := config(t, t.TempDir())
			c.Serve, c.User = serve, roles.User{Role: roles.Operator, Cluster: "c"}
			first := open(t, c)
			client, err := bus.Find(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			first.Close()
			eventually(t, func() string { return "connected" }, func() bool { return !client.Conn().IsConnected() })
			second := open(t, c)
			eventually(t, func() string { return fmt.Sprint(client.Why()) }, client.Conn().IsConnected)
			if now, want := client.Conn().ConnectedAddr(), second.Conn().ConnectedAddr(); now != want {
				t.Errorf("connected to %s, want the next server, %s", now, want)
			}
		})
	}
}
