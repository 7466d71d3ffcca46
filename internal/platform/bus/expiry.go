package bus

import (
	"crypto/x509"
	"encoding/pem"
	"time"

	"github.com/nats-io/jwt/v2"
)

// Expiry is when a file of the block ends.
type Expiry struct {
	Key, Path string
	End       time.Time
}

// Expiries reads the files of the block and returns when the user, this client's certificate and the authorities end.
// Files without an end are not in the list. An nkey, a token and a password have no end.
func (n NATS) Expiries() ([]Expiry, error) {
	m, err := n.read()
	if err != nil {
		return nil, err
	}
	var all []Expiry
	if m.jwt != "" {
		if u, err := jwt.DecodeUserClaims(m.jwt); err == nil && u.Expires != 0 {
			all = append(all, Expiry{"credentials_file", n.CredentialsFile, time.Unix(u.Expires, 0)})
		}
	}
	if m.cert != nil && m.cert.Leaf != nil {
		all = append(all, Expiry{"tls.cert_file", n.TLS.CertFile, m.cert.Leaf.NotAfter})
	}
	if n.TLS.CAFile != "" {
		data, err := readFile(n.TLS.CAFile, false)
		if err != nil {
			return nil, &fileError{"tls.ca_file", n.TLS.CAFile, err}
		}
		if end := firstEnd(data); !end.IsZero() {
			all = append(all, Expiry{"tls.ca_file", n.TLS.CAFile, end})
		}
	}
	return all, nil
}

// firstEnd returns the earliest end of PEM certificates; zero without one.
func firstEnd(data []byte) (end time.Time) {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		if err == nil && (end.IsZero() || c.NotAfter.Before(end)) {
			end = c.NotAfter
		}
	}
	return end
}
