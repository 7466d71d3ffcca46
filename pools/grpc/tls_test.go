package grpc

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// authority signs certificates, and writes them to files.
type authority struct {
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.cert, a.key = a.sign(t, "ca", true)
	return a
}

// sign writes NAME.pem and NAME.key.
func (a *authority) sign(t *testing.T, name string, ca bool) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: ca, BasicConstraintsValid: true, DNSNames: []string{name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, by := a.cert, a.key
	if ca {
		parent, by = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{".pem": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(a.path(name+file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func (a *authority) path(file string) string { return filepath.Join(a.dir, file) }

// A server with TLS gets the certificate of the client, and must have one that the client can check.
func TestTLS(t *testing.T) {
	good, other := newAuthority(t), newAuthority(t)
	for _, name := range []string{"server", "client"} {
		good.sign(t, name, false)
		other.sign(t, name, false)
	}
	pair, err := tls.LoadX509KeyPair(good.path("server.pem"), good.path("server.key"))
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AddCert(good.cert)
	f := start(t, &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients})
	f.add("a", "n-1")
	for _, c := range []struct{ ca, client, name, want string }{
		{good.path("ca.pem"), good.path("client"), "", ""},
		{good.path("ca.pem"), good.path("client"), "server", ""},
		{other.path("ca.pem"), good.path("client"), "", "certificate"},
		{good.path("ca.pem"), good.path("client"), "elsewhere", "elsewhere"},
		{good.path("ca.pem"), other.path("client"), "", "Unavailable"},
		{good.path("ca.pem"), good.path("missing"), "", "no such file"},
		{good.path("missing"), good.path("client"), "", "no such file"},
		{good.path("ca.key"), good.path("client"), "", "has no certificate"},
	} {
		s := selectorOf(t, fmt.Sprintf("{address: %q, group: a, tls: {ca_file: %s, cert_file: %s.pem, key_file: %[3]s.key, server_name: %q}}", f.address, c.ca, c.client, c.name))
		connected, err := connect(s)
		if err == nil {
			_, err = connected.list(t.Context())
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("with %+v: %v", c, err)
		}
	}
	plain := selectorOf(t, fmt.Sprintf("{address: %q, group: a}", f.address))
	if _, err := openPool(t, plain).Groups(t.Context()); err == nil {
		t.Error("a connection without encryption is no error")
	}
}
