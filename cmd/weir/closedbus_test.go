package main

import (
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
)

// closedBus is a server that closes the connections of daemons for good: it accepts shorter messages than they send.
type closedBus struct {
	*server.Server
	options server.Options
	configs string // folder of the daemons' files
}

// closingRow is a daemon whose connection is closed for good.
type closingRow struct {
	args []string
	name string                       // of its connection
	make func(t *testing.T) error     // the daemon sends a message; nil: it does so by itself
	on   func(t *testing.T) closedBus // starts its bus; nil: that of all daemons
}

// The server gets a smaller max_payload by a reload, and closes the connection of a longer message for good. Each daemon ends with
// an error that has the server's reason and what to do, and its service starts it again.
func TestClosedConnectionEndsEachDaemon(t *testing.T) {
	t.Parallel()
	installations.take(t)
	all := newClosedBus(t)
	nothing := func(subject string) func(*testing.T) error { // an empty request, which fits
		return func(t *testing.T) error {
			nc, err := nats.Connect(all.ClientURL())
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			return nc.PublishRequest(subject, "x", nil)
		}
	}
	pool := []string{"--pool", "web"}
	var callout closedBus
	rows := map[string]closingRow{
		config.DaemonAgent: {args: append([]string{"agent", "--id", "n1", "--group", "blue", "--cpus", "1", "--mem", "64", "--heartbeat", "1s", "--dir", t.TempDir()}, pool...), name: "agent n1"},
		config.DaemonAuth: {args: []string{"auth"}, name: "weir auth", on: func(t *testing.T) closedBus { callout = newCalloutBus(t); return callout }, make: func(*testing.T) error {
			if nc, err := nats.Connect(callout.ClientURL(), nats.Token("x")); err == nil {
				nc.Close()
			}
			return nil
		}},
		config.DaemonAutoscaler: {args: []string{"autoscaler", "--pool", "lone"}, name: "autoscaler lone"},
		config.DaemonBootstrap:  {args: append([]string{"bootstrap"}, pool...), name: "bootstrap web", make: nothing("weir.prod.bootstrap.web.status")},
		config.DaemonHarmonizer: {args: []string{"harmonizer"}, name: "weir harmonizer"},
		config.DaemonMetrics:    {args: []string{"metrics", "serve", "--addr", "127.0.0.1:0"}, name: "metrics store", make: nothing("weir.prod.metrics.window")},
		config.DaemonNotify:     {args: []string{"notify"}, name: "weir notify"},
		config.DaemonPlacer:     {args: []string{"placer", "web"}, name: "placer web"},
		config.DaemonWeb:        {args: []string{"web", "--addr", "127.0.0.1:0"}, name: "weir web"},
	}
	if got, want := slices.Sorted(maps.Keys(rows)), config.Daemons(); !slices.Equal(got, want) {
		t.Fatalf("the table has %q, want a row for each of %q", got, want)
	}
	daemons := map[string]*closing{}
	for name, row := range rows {
		b := all
		if row.on != nil {
			b = row.on(t)
		}
		d := startClosing(t, append(row.args, "--admin-addr", "off", "--config-dir", b.configs, "--data", t.TempDir(), "--cluster", "prod"))
		t.Cleanup(d.end)
		daemons[name] = d
	}
	for name, row := range rows {
		b := all
		if row.on != nil {
			b = callout
		}
		daemons[name].wait(t, name, b, row.name)
	}
	for _, b := range []closedBus{all, callout} {
		less := b.options
		less.MaxPayload, less.Port = 1, b.Addr().(*net.TCPAddr).Port
		less.Host, less.NoSigs, less.NoLog, less.JetStreamMaxStore = "127.0.0.1", true, true, bustest.MaxStore
		if err := b.ReloadOptions(&less); err != nil {
			t.Fatal(err)
		}
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) { daemons[name].closed(t, name, row.make) })
	}
}

// newClosedBus runs the server of all daemons.
func newClosedBus(t *testing.T) closedBus {
	b := closedBus{options: server.Options{JetStream: true, StoreDir: t.TempDir()}, configs: t.TempDir()}
	b.Server = bustest.Serve(t, b.options)
	createStreams(t, b.ClientURL(), "prod", "web", "lone")
	const pool = "resource_groups: [{local: {name: blue, min: 1, max: 4, machine: {cpus: 1, mem: 1024}}}]\n" +
		"scaling_limits: {min_capacity: 1, max_capacity: 4, max_weight_to_add: 4, max_weight_to_remove: 4}\n"
	b.write(t, map[string]string{
		"weir.yaml":     fmt.Sprintf("nats: {servers: [%q]}\nautoscale_signal: {name: default}\nnotify: [{name: hook, url: \"http://127.0.0.1:1/\"}]\n", b.ClientURL()),
		"prod/web.yaml": pool, "prod/lone.yaml": pool,
	})
	return b
}

// newCalloutBus runs a server whose unknown users "weir auth" verifies.
func newCalloutBus(t *testing.T) closedBus {
	b := closedBus{configs: t.TempDir()}
	issuer, issuerFile := keyPair(t, b.configs, "issuer.nk", nkeys.CreateAccount)
	user, userFile := keyPair(t, b.configs, "auth.nk", nkeys.CreateUser)
	secret := filepath.Join(b.configs, "secret")
	accounts := []*server.Account{server.NewAccount("AUTH")}
	b.options = server.Options{
		Accounts: accounts, AuthTimeout: 5, Nkeys: []*server.NkeyUser{{Nkey: user, Account: accounts[0]}},
		AuthCallout: &server.AuthCallout{Issuer: issuer, Account: "AUTH", AuthUsers: []string{user}},
	}
	b.Server = bustest.Serve(t, b.options)
	b.write(t, map[string]string{"secret": strings.Repeat("a", 40), "weir.yaml": fmt.Sprintf(
		"nats: {servers: [%q], nkey_file: %s}\nauth:\n  issuer_key_file: %s\n  verifiers:\n    sharedsecret: {key_file: %s, pools: [web]}\n", b.ClientURL(), userFile, issuerFile, secret)})
	return b
}

func (b closedBus) write(t *testing.T, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(b.configs, filepath.FromSlash(name))
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// closing is a daemon.
type closing struct {
	cmd  *exec.Cmd
	out  output
	done chan struct{}
	err  error // of the process, after done
}

func startClosing(t *testing.T, args []string) *closing {
	t.Helper()
	d := &closing{cmd: exec.Command(weirOf(t), args...), done: make(chan struct{})}
	d.cmd.Env, d.cmd.Stdout, d.cmd.Stderr = append(os.Environ(), asWeir+"=1"), &d.out, &d.out
	if err := offspring.Start(d.cmd); err != nil {
		t.Fatal(err)
	}
	go func() { d.err = d.cmd.Wait(); close(d.done) }()
	return d
}

// end ends the daemon, if it runs.
func (d *closing) end() {
	_ = d.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	<-d.done
}

// ended reports whether the process has ended.
func (d *closing) ended() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}

// wait waits until the daemon is connected and receives messages.
func (d *closing) wait(t *testing.T, name string, b closedBus, connection string) {
	t.Helper()
	eventually(t, name+" is connected", func() error {
		all, err := b.Connz(&server.ConnzOptions{Subscriptions: true})
		if err != nil {
			return err
		}
		for _, c := range all.Conns {
			if c.Name == connection && c.NumSubs > 0 {
				return nil
			}
		}
		return fmt.Errorf("%s", d.out.String())
	})
}

// closed waits for the end of the daemon by its closed connection.
func (d *closing) closed(t *testing.T, name string, send func(*testing.T) error) {
	t.Helper()
	eventually(t, name+" ends", func() error {
		if d.ended() {
			return nil
		}
		if send != nil {
			if err := send(t); err != nil {
				return err
			}
		}
		return fmt.Errorf("it runs on: %s", d.out.String())
	})
	if text := d.out.String(); d.err == nil || !strings.Contains(text, "closed for good: nats: Maximum Payload Violation; the servers accept shorter messages") {
		t.Errorf("%s ends with %v and %s, want the server's reason and what to do", name, d.err, text)
	}
}
