package bus_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
)

// authority signs certificates of a test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	der := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "authority of the test"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(time.Hour),
	})
	a.key = der.key
	var err error
	if a.cert, err = x509.ParseCertificate(der.der); err != nil {
		t.Fatal(err)
	}
	a.file = a.write("CERTIFICATE", der.der)
	return a
}

type signed struct {
	der []byte
	key *ecdsa.PrivateKey
}

// sign signs with the authority's key, or with the new key while the authority lacks it.
func (a *authority) sign(c *x509.Certificate) signed {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	parent, by := a.cert, a.key
	if by == nil {
		parent, by = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), by)
	if err != nil {
		a.t.Fatal(err)
	}
	return signed{der, key}
}

func (a *authority) write(kind string, der []byte) string {
	a.t.Helper()
	return secret(a.t, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
}

// leaf returns a certificate for 127.0.0.1, valid until end, and the files of it and of its key.
func (a *authority) leaf(end time.Time) (pair tls.Certificate, certFile, keyFile string) {
	a.t.Helper()
	one := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "127.0.0.1"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: end,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	key, err := x509.MarshalPKCS8PrivateKey(one.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{one.der}, PrivateKey: one.key}, a.write("CERTIFICATE", one.der), a.write("PRIVATE KEY", key)
}

// serverTLS returns the options of a server with TLS.
func (a *authority) serverTLS(end time.Time) server.Options {
	pair, _, _ := a.leaf(end)
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return server.Options{TLS: true, TLSTimeout: 60, TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, MinVersion: tls.VersionTLS12}}
}

// secret writes a file that only this user can read.
func secret(t *testing.T, text string) string {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "secret")
	if err == nil {
		_, err = file.WriteString(text)
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return file.Name()
}

// replace replaces a file as an operator's tool does.
func replace(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// user returns a new user's seed and public key.
func user(t *testing.T) (seed, public string) {
	t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	data, err := pair.Seed()
	if err == nil {
		public, err = pair.PublicKey()
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(data), public
}

// credentials returns the options of a server that trusts a new operator, and the credentials of one user for each tag.
func credentials(t *testing.T, tags ...string) (server.Options, []string) {
	t.Helper()
	operator, err := nkeys.CreateOperator()
	if err != nil {
		t.Fatal(err)
	}
	account, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	operatorKey, _ := operator.PublicKey()
	accountKey, _ := account.PublicKey()
	oc, ac := jwt.NewOperatorClaims(operatorKey), jwt.NewAccountClaims(accountKey)
	encode := func(claims jwt.Claims, by nkeys.KeyPair) string {
		text, err := claims.Encode(by)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	encode(oc, operator)
	resolver := &server.MemAccResolver{}
	if err := resolver.Store(accountKey, encode(ac, operator)); err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, tag := range tags {
		seed, public := user(t)
		uc := jwt.NewUserClaims(public)
		uc.Tags.Add(tag)
		file, err := jwt.FormatUserConfig(encode(uc, account), []byte(seed))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, string(file))
	}
	return server.Options{TrustedOperators: []*jwt.OperatorClaims{oc}, AccountResolver: resolver}, files
}

// events is a log whose lines a test can wait for.
type events struct {
	mu    sync.Mutex
	lines []string
	more  chan struct{} // capacity 1
}

func newEvents() *events { return &events{more: make(chan struct{}, 1)} }

func (e *events) Write(line []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lines = append(e.lines, string(line))
	select {
	case e.more <- struct{}{}:
	default:
	}
	return len(line), nil
}

// wait returns the first line with that text, and drops the lines up to it.
func (e *events) wait(t *testing.T, text string) string {
	t.Helper()
	deadline := time.After(patience)
	for {
		e.mu.Lock()
		for i, line := range e.lines {
			if strings.Contains(line, text) {
				e.lines = e.lines[i+1:]
				e.mu.Unlock()
				return line
			}
		}
		all := e.lines
		e.mu.Unlock()
		select {
		case <-e.more:
		case <-deadline:
			t.Fatalf("no log line with %q within %v, but %q", text, patience, all)
		}
	}
}

// connectTo opens a bus with quick renewals.
func connectTo(t *testing.T, n bus.NATS, log io.Writer) *bus.Bus {
	t.Helper()
	b, err := bus.Open(t.Context(), bus.Config{
		NATS: n, Name: "test", Log: slog.New(slog.NewTextHandler(log, nil)), ReconnectWait: 20 * time.Millisecond, FilesEvery: 10 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func TestEachWayToAuthenticate(t *testing.T) {
	ca := newAuthority(t)
	seed, public := user(t)
	withCA := bus.TLS{CAFile: ca.file}
	_, withCA.CertFile, withCA.KeyFile = ca.leaf(time.Now().Add(time.Hour))
	operated, creds := credentials(t, "short")
	mutual := ca.serverTLS(time.Now().Add(time.Hour))
	mutual.TLSConfig.ClientAuth, mutual.TLSVerify = tls.RequireAndVerifyClientCert, true
	for name, tc := range map[string]struct {
		server server.Options
		client bus.NATS
	}{
		"credentials": {operated, bus.NATS{CredentialsFile: secret(t, creds[0])}},
		"nkey":        {server.Options{Nkeys: []*server.NkeyUser{{Nkey: public}}}, bus.NATS{NKeyFile: secret(t, seed+"\n")}},
		"token":       {server.Options{Authorization: "hush"}, bus.NATS{TokenFile: secret(t, "hush\n")}},
		"password":    {server.Options{Username: "u", Password: "hush"}, bus.NATS{User: "u", PasswordFile: secret(t, "hush")}},
		"tls":         {ca.serverTLS(time.Now().Add(time.Hour)), bus.NATS{TLS: bus.TLS{CAFile: ca.file}}},
		"mutual tls":  {mutual, bus.NATS{TLS: withCA}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.client.Servers = []string{bustest.Serve(t, tc.server).ClientURL()}
			b := connectTo(t, tc.client, io.Discard)
			if err := b.Conn().FlushTimeout(patience); err != nil {
				t.Error(err)
			}
			if _, err := b.Conn().TLSConnectionState(); (err == nil) != (tc.server.TLSConfig != nil) {
				t.Errorf("state of TLS: %v", err)
			}
			if got := b.Replicas(); got != 1 {
				t.Errorf("%d replicas on a single server, want 1", got)
			}
		})
	}
}

func TestWrongInputsAreNamedInOneLine(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	seed, _ := user(t)
	_, known := user(t)
	operated, long := credentials(t, strings.Repeat("x", 4096))
	file, open := secret(t, seed), secret(t, seed)
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	_, oldCert, oldKey := ca.leaf(time.Now().Add(-time.Hour))
	nkey := server.Options{Nkeys: []*server.NkeyUser{{Nkey: known}}}
	silent := bustest.Callout(t) // it sends no ping during the login
	silent.DisableShortFirstPing = true
	valid, expired := ca.serverTLS(time.Now().Add(time.Hour)), ca.serverTLS(time.Now().Add(-time.Hour))
	missing := filepath.Join(t.TempDir(), "missing")
	for name, tc := range map[string]struct {
		server server.Options
		client bus.NATS
		want   []string
	}{
		"no credentials":      {nkey, bus.NATS{}, []string{"Authorization Violation", "set nats.credentials_file"}},
		"wrong nkey":          {nkey, bus.NATS{NKeyFile: secret(t, seed)}, []string{"Authorization Violation", "rejects the user of nats.nkey_file", "replace it"}},
		"no service answers":  {bustest.Callout(t), bus.NATS{NKeyFile: file}, []string{"has not accepted the user of nats.nkey_file " + file, "\"weir auth\" runs", "configuration of the servers"}},
		"no answer in time":   {silent, bus.NATS{NKeyFile: file}, []string{"has not accepted the user of nats.nkey_file " + file, "\"weir auth\" runs", "configuration of the servers"}},
		"no nkey on a server": {server.Options{}, bus.NATS{NKeyFile: file}, []string{"nkeys not supported by the server", "add the user of nats.nkey_file " + file}},
		"wrong token":         {server.Options{Authorization: "hush"}, bus.NATS{TokenFile: secret(t, "x")}, []string{"Authorization Violation", "nats.token_file"}},
		"wrong password":      {server.Options{Username: "u", Password: "hush"}, bus.NATS{User: "u", PasswordFile: secret(t, "x")}, []string{"Authorization Violation", `user "u" of nats.user`}},
		"wrong authority":     {valid, bus.NATS{TLS: bus.TLS{CAFile: other.file}}, []string{"signed by unknown authority", "nats.tls.ca_file", "replace it"}},
		"no authority":        {valid, bus.NATS{}, []string{"signed by unknown authority", "set nats.tls.ca_file"}},
		"expired certificate": {expired, bus.NATS{TLS: bus.TLS{CAFile: ca.file}}, []string{"certificate has expired", "renew the server's certificate"}},
		"server without TLS":  {server.Options{}, bus.NATS{TLS: bus.TLS{CAFile: ca.file}}, []string{"secure connection not available", "the server has no TLS"}},
		"long credentials":    {operated, bus.NATS{CredentialsFile: secret(t, long[0])}, []string{"aximum control line exceeded", "shorten the credentials"}},
		"no such file":        {nkey, bus.NATS{NKeyFile: missing}, []string{"nats.nkey_file " + missing, "no such file", "name a file that exists"}},
		"readable by others":  {nkey, bus.NATS{NKeyFile: open}, []string{"nats.nkey_file", "mode 0644", "chmod 600 " + open}},
		"a folder":            {nkey, bus.NATS{TokenFile: t.TempDir()}, []string{"nats.token_file", "is a folder", "name a file"}},
		"no nkey":             {nkey, bus.NATS{NKeyFile: secret(t, known)}, []string{"nats.nkey_file", "has no seed of a user nkey"}},
		"no credentials file": {operated, bus.NATS{CredentialsFile: secret(t, seed)}, []string{"nats.credentials_file", "nsc generate creds"}},
		"no certificate":      {valid, bus.NATS{TLS: bus.TLS{CAFile: secret(t, "x")}}, []string{"nats.tls.ca_file", "has no PEM certificate"}},
		"expired client":      {valid, bus.NATS{TLS: bus.TLS{CAFile: ca.file, CertFile: oldCert, KeyFile: oldKey}}, []string{"nats.tls.key_file", "expired at", "renew it"}},
		"two lines":           {nkey, bus.NATS{TokenFile: secret(t, "a\nb")}, []string{"nats.token_file", "want one line"}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.client.Servers = []string{bustest.Serve(t, tc.server).ClientURL()}
			b, err := bus.Open(t.Context(), bus.Config{NATS: tc.client, Name: "test", Log: slog.New(slog.DiscardHandler)})
			if err == nil {
				b.Close()
				t.Fatal("Open returned a bus, want an error")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), seed) {
					t.Errorf("err = %v, want one line with %q and no secret", err, want)
				}
			}
		})
	}
}

// The server first drops the user, then accepts the one of the changed file. Meanwhile it receives no burst of connects.
func TestRejectedClientReturnsWithNewCredentials(t *testing.T) {
	const wait = 50 * time.Millisecond
	s := bustest.Serve(t, server.Options{Authorization: "first"})
	gate := newGate(t, s.Addr().String())
	log, file := newEvents(), secret(t, "first")
	b, err := bus.Open(t.Context(), bus.Config{
		NATS: bus.NATS{Servers: []string{"nats://" + gate.address}, TokenFile: file}, Name: "test",
		Log: slog.New(slog.NewTextHandler(log, nil)), ReconnectWait: wait, FilesEvery: 10 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	gate.wait(t, 1)
	next := server.Options{Host: "127.0.0.1", Port: s.Addr().(*net.TCPAddr).Port, NoSigs: true, NoLog: true, Authorization: "second"}
	if err := s.ReloadOptions(&next); err != nil {
		t.Fatal(err)
	}
	times := gate.wait(t, 6)
	for i := 2; i < len(times); i++ { // the first one follows at once
		if gap := times[i].Sub(times[i-1]); gap < wait {
			t.Errorf("attempts %d and %d are %v apart, want at least %v", i, i+1, gap, wait)
		}
	}
	if b.Conn().IsClosed() {
		t.Fatal("the connection is closed for good")
	}
	replace(t, file, "second")
	log.wait(t, "bus reconnected")
}

// gate forwards connections to a server and records when each began.
type gate struct {
	address string
	mu      sync.Mutex
	times   []time.Time
	more    chan struct{}
}

func newGate(t *testing.T, server string) *gate {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{address: listener.Addr().String(), more: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			g.mu.Lock()
			g.times = append(g.times, time.Now())
			g.mu.Unlock()
			select {
			case g.more <- struct{}{}:
			default:
			}
			wg.Go(func() { forward(ctx, in, server) })
		}
	})
	t.Cleanup(func() { cancel(); listener.Close(); wg.Wait() })
	return g
}

func forward(ctx context.Context, in net.Conn, server string) {
	defer in.Close()
	out, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer out.Close()
	defer context.AfterFunc(ctx, func() { in.Close(); out.Close() })()
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(out, in); out.Close() }) // ends with either connection
	_, _ = io.Copy(in, out)
	in.Close()
	wg.Wait()
}

// wait returns when n connections have begun.
func (g *gate) wait(t *testing.T, n int) []time.Time {
	t.Helper()
	deadline := time.After(patience)
	for {
		g.mu.Lock()
		times := append([]time.Time(nil), g.times...)
		g.mu.Unlock()
		if len(times) >= n {
			return times
		}
		select {
		case <-g.more:
		case <-deadline:
			t.Fatalf("%d connections within %v, want %d", len(times), patience, n)
		}
	}
}

func TestClientSettings(t *testing.T) {
	s := bustest.Serve(t, server.Options{ServerName: "one", Cluster: server.ClusterOpts{Name: "three", Host: "127.0.0.1", Port: -1}})
	for configured, want := range map[int]int{0: 3, 1: 1, 5: 5} {
		b, err := bus.Open(t.Context(), bus.Config{
			NATS: bus.NATS{Servers: []string{closedPort(t), s.ClientURL()}, Replicas: configured}, InboxPrefix: "_INBOX_weir.prod.pool.web",
			Name: "test", Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := b.Replicas(); got != want {
			t.Errorf("%d configured on a cluster: %d replicas, want %d", configured, got, want)
		}
		if inbox := b.Conn().NewInbox(); !strings.HasPrefix(inbox, "_INBOX_weir.prod.pool.web.") {
			t.Errorf("inbox %s, want the configured prefix", inbox)
		}
		if o := b.Conn().Opts; o.PingInterval != 2*time.Second || o.MaxPingsOut != 2 || !o.IgnoreAuthErrorAbort || o.MaxReconnect != -1 || o.ReconnectBufSize != -1 {
			t.Errorf("options %s", fmt.Sprint(o.PingInterval, o.MaxPingsOut, o.IgnoreAuthErrorAbort, o.MaxReconnect, o.ReconnectBufSize))
		}
		b.Close()
	}
}
