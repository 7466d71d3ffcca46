// Package natscert makes a private certificate authority and the certificates of NATS servers.
//
//	ca, err := natscert.NewCA("weir", now)
//	cert, key, err := ca.Server("n1", []string{"n1", "10.0.0.1"}, now)
//
// A server's certificate is valid for clients and for the other servers, because a server is
// also a client of its routes. The keys are ECDSA on P-256. Everything is PEM.
//
// The package holds no state. All functions may be called concurrently.
package natscert

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Lifetimes of certificates. A server's certificate is replaced by a new run with the same authority.
const (
	authorityLife = 10 * 365 * 24 * time.Hour
	serverLife    = 2 * 365 * 24 * time.Hour
	clockSkew     = time.Hour // between the hosts
)

// CA is a certificate authority.
type CA struct {
	Cert []byte // PEM
	Key  []byte // PEM, secret
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewCA makes an authority.
func NewCA(name string, now time.Time) (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a certificate authority: %w", err)
	}
	template := x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-clockSkew), NotAfter: now.Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	cert, secret, err := sign(&template, &template, key, key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate authority: %w", err)
	}
	return ParseCA(cert, secret)
}

// ParseCA reads an authority. Its key must be ECDSA and fit the certificate.
func ParseCA(cert, key []byte) (*CA, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("read the certificate authority: %w", err)
	}
	parsed, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, fmt.Errorf("read the certificate authority: %w", err)
	}
	secret, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || !parsed.IsCA {
		return nil, errors.New("read the certificate authority: want a certificate that may sign others, and its ECDSA key")
	}
	return &CA{Cert: cert, Key: key, cert: parsed, key: secret}, nil
}

// Server makes the certificate of a server with these names and addresses.
func (ca *CA) Server(name string, hosts []string, now time.Time) (cert, key []byte, err error) {
	template := x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-clockSkew), NotAfter: now.Add(serverLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err == nil {
		cert, key, err = sign(&template, ca.cert, secret, ca.key)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("make the certificate of server %s: %w", name, err)
	}
	return cert, key, nil
}

func sign(template, parent *x509.Certificate, own, parentKey *ecdsa.PrivateKey) (cert, key []byte, err error) {
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &own.PublicKey, parentKey)
	if err != nil {
		return nil, nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), nil
}

// Check returns an error unless the certificate fits its key, is valid now, was signed by the authority, and has each
// of the hosts.
func Check(authority, cert, key []byte, hosts []string, now time.Time) error {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return err
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return err
	}
	pool, between := x509.NewCertPool(), x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bytes.TrimSpace(authority)) {
		return errors.New("the authority has no certificate in PEM")
	}
	for _, der := range pair.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(c)
		}
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		_, err := leaf.Verify(x509.VerifyOptions{Roots: pool, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}})
		if err != nil {
			return fmt.Errorf("%w; a server's certificate needs the uses server and client", err)
		}
	}
	for _, host := range hosts {
		if err := leaf.VerifyHostname(host); err != nil {
			return err
		}
	}
	return nil
}
