package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natscert"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// newCA returns an authority, and the file of its certificate.
func newCA(t *testing.T) (*natscert.CA, string) {
	t.Helper()
	ca, err := natscert.NewCA("test", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return ca, file(t, "ca.crt", string(ca.Cert))
}

// encrypted returns the options of a server whose certificate was made at that time.
func encrypted(t *testing.T, ca *natscert.CA, made time.Time) server.Options {
	t.Helper()
	cert, key, err := ca.Server("n1", []string{"127.0.0.1"}, made)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return server.Options{
		JetStream: true, StoreDir: t.TempDir(), TLS: true, TLSTimeout: 60,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
	}
}

// seedFile returns the file of a new user's seed, and its public key.
func seedFile(t *testing.T) (path, public string) {
	t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := pair.Seed()
	if err == nil {
		public, err = pair.PublicKey()
	}
	if err != nil {
		t.Fatal(err)
	}
	return file(t, "user.nk", string(seed)), public
}

// limited returns the options of a server with one user, who may do what a pool may, without one subject.
func limited(t *testing.T, public string, without string) server.Options {
	t.Helper()
	p := user(roles.Pool).Permissions()
	drop := func(all []string) *server.SubjectPermission {
		return &server.SubjectPermission{Allow: slices.DeleteFunc(all, func(s string) bool { return s == without })}
	}
	return server.Options{JetStream: true, StoreDir: t.TempDir(), Nkeys: []*server.NkeyUser{
		{Nkey: public, Permissions: &server.Permissions{Publish: drop(p.Publish), Subscribe: drop(p.Subscribe)}},
	}}
}

// of returns the options of a server whose users are in this account.
func of(account string, o server.Options) server.Options {
	a := server.NewAccount(account)
	o.Accounts = []*server.Account{a}
	for _, u := range o.Nkeys {
		u.Account = a
	}
	return o
}

// start connects and reads the bucket of the pool as its daemons do, and writes the lease.
func start(ctx context.Context, c bus.Config) error {
	c.User = user(roles.Pool)
	b, err := bus.Find(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	bucket := names.PoolBucket("prod", "web")
	if _, err := kvbucket.Check(ctx, b.JetStream(), bucket); err != nil && !errors.Is(err, kvbucket.ErrMissing) {
		return err
	}
	_, err = kvbucket.New(b.JetStream(), bucket).Update(ctx, "lease", []byte("x"), 0)
	if errors.Is(err, kvbucket.ErrMissing) { // the daemon waits for it
		return nil
	}
	return err
}

// Each wrong input is named in one line, with the server's word and what to do, by doctor and at the start of a daemon.
func TestWrongBusIsNamed(t *testing.T) {
	t.Parallel()
	ca, caFile := newCA(t)
	_, otherCA := newCA(t)
	const life, left = 730 * 24 * time.Hour, 5 * 24 * time.Hour
	nkey, public := seedFile(t)
	other, _ := seedFile(t)
	withCA := bus.NATS{TLS: bus.TLS{CAFile: caFile}}
	old := bustest.ServeVersion(t, "2.14.3")
	lease, heartbeat := "$KV.weir-pool:prod:web.lease", "weir.prod.heartbeat.web.*"
	for name, tc := range map[string]struct {
		server *server.Options // nil: that of client
		client bus.NATS
		start  []string // words of the error at the start; nil: it starts
		check  string
		result Result
		doctor []string
	}{
		"earlier version": {nil, bus.NATS{Servers: []string{old}}, []string{"n1 has NATS 2.14.3", "install NATS 2.15 or later"},
			"nats server", Failed, []string{"n1 has NATS 2.14.3", "install NATS 2.15 or later"}},
		"wrong server": {nil, bus.NATS{Servers: []string{"nats://127.0.0.1:1"}}, []string{"connection refused", "nats.servers of weir.yaml"},
			"nats server", Failed, []string{"connection refused", "nats.servers of weir.yaml"}},
		"wrong credential": {new(limited(t, public, "")), bus.NATS{NKeyFile: other}, []string{"Authorization Violation", "nats.nkey_file " + other, "replace it"},
			"nats server", Failed, []string{"Authorization Violation", "nats.nkey_file " + other, "replace it"}},
		"weir auth is away": {new(bustest.Callout(t)), bus.NATS{NKeyFile: other}, []string{"has not accepted the user of nats.nkey_file " + other, `"weir auth" runs`},
			"nats server", Failed, []string{"has not accepted the user of nats.nkey_file " + other, `"weir auth" runs`}},
		"wrong authority": {new(encrypted(t, ca, time.Now())), bus.NATS{TLS: bus.TLS{CAFile: otherCA}}, []string{"signed by unknown authority", "nats.tls.ca_file " + otherCA},
			"nats server", Failed, []string{"signed by unknown authority", "nats.tls.ca_file " + otherCA}},
		"expired certificate": {new(encrypted(t, ca, time.Now().Add(-life-left))), withCA, []string{"certificate has expired", "renew the server's certificate"},
			"nats server", Failed, []string{"certificate has expired", "renew the server's certificate"}},
		"certificate ends soon": {new(encrypted(t, ca, time.Now().Add(left-life))), withCA, nil,
			"nats server", Warned, []string{"certificate for 127.0.0.1 ends in 5 days", "renew the certificate"}},
		"no JetStream": {&server.Options{}, bus.NATS{}, []string{"no responders", "enable JetStream on the NATS servers"},
			"nats server", Failed, []string{"has no JetStream", "enable JetStream"}},
		"too few servers": {&server.Options{JetStream: true, StoreDir: t.TempDir()}, bus.NATS{Replicas: 3}, nil,
			"replicas", Failed, []string{"3 replicas", "number of known servers is 1", "lower nats.replicas"}},
		"no permissions are set": {&server.Options{JetStream: true, StoreDir: t.TempDir()}, bus.NATS{}, nil,
			"role", Warned, []string{"permit everything", "weir nats init"}},
		"role without a key": {new(limited(t, public, lease)), bus.NATS{NKeyFile: nkey}, []string{"publish to " + lease, "nats.nkey_file " + nkey, "weir doctor"},
			"role", Failed, []string{"prod.pool.web", "may not publish to " + lease, "weir nats init"}},
		"role without an event": {new(limited(t, public, heartbeat)), bus.NATS{NKeyFile: nkey}, nil,
			"role", Failed, []string{"prod.pool.web", "may not subscribe to weir.prod.heartbeat.web.probe", "weir nats init"}},
		"key of an earlier layout": {new(of(roles.AccountStore, limited(t, public, ""))), bus.NATS{NKeyFile: nkey}, []string{"prod.pool.web in account WEIR", "the account of this role is POOL:prod:web", "weir nats init"},
			"borders", Failed, []string{"is in account WEIR", "the account of its role is POOL:prod:web", "weir nats init"}},
		"credentials of nothing": {new(limited(t, public, "")), bus.NATS{NKeyFile: nkey + ".missing"}, []string{"nats.nkey_file " + nkey + ".missing", "name a file that exists"},
			"nats server", Failed, []string{"nats.nkey_file " + nkey + ".missing", "name a file that exists"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.server != nil {
				tc.client.Servers = []string{bustest.Serve(t, *tc.server).ClientURL()}
			}
			c := bus.Config{Name: "test", Log: slog.New(slog.DiscardHandler), NATS: tc.client}
			want(t, examineBus(t, c, false), tc.check, tc.result, tc.doctor...)

			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			err := start(ctx, c)
			if (err == nil) != (tc.start == nil) {
				t.Fatalf("the start returned %v, want %q", err, tc.start)
			}
			for _, text := range tc.start {
				if !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "\n") || errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the start returned %v, want one line with %q, before the deadline", err, text)
				}
			}
		})
	}
}

// A clock that differs by five minutes is a failure, one by less than a second is not.
func TestSkew(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, c := range []struct {
		server time.Duration // of its clock after the request, which took a second
		want   Result
		text   string
	}{
		{500 * time.Millisecond, OK, "is that of this host (compared within 1s)"},
		{1500 * time.Millisecond, OK, "500ms ahead of"},
		{-2 * time.Second, Warned, "2s behind"},
		{5 * time.Minute, Failed, "4m59s ahead of"},
		{-5 * time.Minute, Failed, "5m0s behind"},
	} {
		f := ofClock("n1", bus.Skew(now, now.Add(time.Second), now.Add(c.server).Round(0)), time.Second)
		if f.Result != c.want || !strings.Contains(f.Detail, c.text) || (f.Fix == "") != (c.want == OK) {
			t.Errorf("a server's clock at %v: %+v, want %s with %q", c.server, f, c.want, c.text)
		}
	}
}
