package bus_test

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
)

// rotation is one kind of file that changes while a client is connected.
type rotation struct {
	server server.Options
	client bus.NATS
	key    string                       // of the file in the block
	wrong  map[string]map[string]string // case -> path -> content; the last connection stays in use
	right  map[string]string
	// shown returns the server's view of the connected client's login.
	shown         func(server.ConnInfo) string
	before, after string
}

// tokens accepts two tokens, each as a user of its own.
type tokens struct{ all []string }

func (a tokens) Check(c server.ClientAuthentication) bool {
	token := c.GetOpts().Token
	c.RegisterUser(&server.User{Username: token})
	return slices.Contains(a.all, token)
}

func readAll(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func ofUser(c server.ConnInfo) string { return c.AuthorizedUser }

func ofNKey(t *testing.T) rotation {
	first, firstKey := user(t)
	second, secondKey := user(t)
	unknown, _ := user(t)
	file := secret(t, first)
	return rotation{
		server: server.Options{Nkeys: []*server.NkeyUser{{Nkey: firstKey}, {Nkey: secondKey}}}, client: bus.NATS{NKeyFile: file}, key: "nats.nkey_file",
		wrong: map[string]map[string]string{"unknown user": {file: unknown}, "no seed": {file: "x"}}, right: map[string]string{file: second},
		shown: ofUser, before: firstKey[:8], after: secondKey[:8],
	}
}

func ofToken(t *testing.T) rotation {
	file := secret(t, "first")
	return rotation{
		server: server.Options{CustomClientAuthentication: tokens{[]string{"first", "second"}}}, client: bus.NATS{TokenFile: file}, key: "nats.token_file",
		wrong: map[string]map[string]string{"unknown token": {file: "third"}, "two lines": {file: "third\nfourth"}}, right: map[string]string{file: "second"},
		shown: ofUser, before: "first", after: "second",
	}
}

func ofCredentials(t *testing.T) rotation {
	operated, files := credentials(t, "first", "second")
	_, foreign := credentials(t, "third")
	keyOf := func(file string) string {
		token, err := jwt.ParseDecoratedJWT([]byte(file))
		if err != nil {
			t.Fatal(err)
		}
		claims, err := jwt.DecodeUserClaims(token)
		if err != nil {
			t.Fatal(err)
		}
		return claims.Subject[:8]
	}
	file := secret(t, files[0])
	return rotation{
		server: operated, client: bus.NATS{CredentialsFile: file}, key: "nats.credentials_file",
		wrong: map[string]map[string]string{"user of another operator": {file: foreign[0]}, "no JWT": {file: "x"}}, right: map[string]string{file: files[1]},
		shown: ofUser, before: keyOf(files[0]), after: keyOf(files[1]),
	}
}

// ofCertificate changes a certificate and its key, one file after the other.
func ofCertificate(t *testing.T) rotation {
	ca, other := newAuthority(t), newAuthority(t)
	first, cert, key := ca.leaf(time.Now().Add(time.Hour))
	second, newCert, newKey := ca.leaf(time.Now().Add(time.Hour))
	_, foreignCert, foreignKey := other.leaf(time.Now().Add(time.Hour))
	mutual := ca.serverTLS(time.Now().Add(time.Hour))
	mutual.TLSConfig.ClientAuth, mutual.TLSVerify = tls.RequireAndVerifyClientCert, true
	digest := func(c tls.Certificate) string {
		sum := sha256.Sum256(c.Certificate[0])
		return hex.EncodeToString(sum[:])
	}
	return rotation{
		server: mutual, client: bus.NATS{TLS: bus.TLS{CAFile: ca.file, CertFile: cert, KeyFile: key}}, key: "nats.tls.",
		wrong: map[string]map[string]string{
			"certificate of another authority": {cert: readAll(t, foreignCert), key: readAll(t, foreignKey)},
			"certificate without its key":      {cert: readAll(t, newCert)},
			"no certificate":                   {cert: "x"},
		},
		right: map[string]string{cert: readAll(t, newCert), key: readAll(t, newKey)},
		shown: func(c server.ConnInfo) string {
			if len(c.TLSPeerCerts) == 0 {
				return "no certificate"
			}
			return c.TLSPeerCerts[0].CertSha256
		},
		before: digest(first), after: digest(second),
	}
}

func ofAuthority(t *testing.T) rotation {
	ca, other := newAuthority(t), newAuthority(t)
	bundle := readAll(t, other.file) + readAll(t, ca.file)
	return rotation{
		server: ca.serverTLS(time.Now().Add(time.Hour)), client: bus.NATS{TLS: bus.TLS{CAFile: ca.file}}, key: "nats.tls.ca_file",
		wrong: map[string]map[string]string{"another authority": {ca.file: readAll(t, other.file)}, "no certificate": {ca.file: "x"}},
		right: map[string]string{ca.file: bundle}, shown: func(server.ConnInfo) string { return "connected" }, before: "connected", after: "connected",
	}
}

// Wrong content never ends the connection, and is named. Right content renews it.
func TestChangedFilesRenewTheConnection(t *testing.T) {
	for name, of := range map[string]func(*testing.T) rotation{
		"nkey": ofNKey, "token": ofToken, "credentials": ofCredentials, "client certificate": ofCertificate, "authority": ofAuthority,
	} {
		t.Run(name, func(t *testing.T) { of(t).run(t) })
	}
}

func (r rotation) run(t *testing.T) {
	s, log := bustest.Serve(t, r.server), newEvents()
	r.client.Servers = []string{s.ClientURL()}
	b := connectTo(t, r.client, log)
	first := r.connection(t, s, b, r.before)
	for name, files := range r.wrong {
		for _, path := range slices.Sorted(maps.Keys(files)) {
			replace(t, path, files[path])
		}
		line := log.wait(t, "bus files rejected")
		for len(files) > 1 && strings.Contains(line, "does not match") { // between the changes of two files
			line = log.wait(t, "bus files rejected")
		}
		for _, secret := range files {
			if len(secret) > 1 && strings.Contains(line, strings.TrimSpace(secret)) {
				t.Errorf("%s: logged %q with a secret", name, line)
			}
		}
		if !strings.Contains(line, r.key) {
			t.Errorf("%s: logged %q, want the key %s", name, line, r.key)
		}
		if err := b.Problem(); err == nil || !strings.Contains(err.Error(), r.key) {
			t.Errorf("%s: Problem = %v, want the reason", name, err)
		}
		if after := r.connection(t, s, b, r.before); after != first {
			t.Errorf("%s: client %d, want the connection of client %d", name, after, first)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(r.right)) {
		replace(t, path, r.right[path])
	}
	log.wait(t, "bus reconnected")
	r.connection(t, s, b, r.after)
	if err := b.Problem(); err != nil {
		t.Errorf("Problem = %v after a renewal", err)
	}
}

// connection requires that the server shows that login for the client, and returns the client's id.
func (r rotation) connection(t *testing.T, s *server.Server, b *bus.Bus, want string) uint64 {
	t.Helper()
	id, err := b.Conn().GetClientID()
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Connz(&server.ConnzOptions{Username: true, CID: id})
	if err != nil || len(got.Conns) != 1 {
		t.Fatalf("connection %d: %+v, %v", id, got, err)
	}
	if shown := r.shown(*got.Conns[0]); !strings.Contains(shown, want) {
		t.Errorf("the server shows %q, want %q", shown, want)
	}
	return id
}
