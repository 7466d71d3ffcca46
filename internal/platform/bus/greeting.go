package bus

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
)

const (
	maxGreeting = 64 << 10 // bytes of a server's first line
	maxText     = 80       // bytes of each name in it
	maxPeers    = 256      // addresses in it
	defaultPort = "4222"
)

// Greeting is what a server reports before a client authenticates.
type Greeting struct {
	Server    string // name
	Version   string
	Cluster   string // empty: a single server
	JetStream bool
	// MaxPayload is the longest message that the server accepts, in bytes; 0: not reported.
	MaxPayload int64
	Peers      []string // addresses of the servers of its cluster for clients, its own too
	// Certificates is the server's chain, the server's own first; nil without TLS. They are not verified.
	Certificates []*x509.Certificate
}

// Greet connects to one server, reads its greeting and its certificates, and disconnects. It sends no credentials and
// verifies nothing, so it also returns the certificate that a client rejects.
func Greet(ctx context.Context, server string) (Greeting, error) {
	u, err := parseServer(server)
	if err != nil {
		return Greeting{}, CheckServer(server)
	}
	address := u.Host
	if u.Port() == "" {
		address = net.JoinHostPort(u.Hostname(), defaultPort)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return Greeting{}, err
	}
	defer conn.Close() // nothing was sent
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return Greeting{}, err
		}
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })()
	lines := bufio.NewReaderSize(conn, maxGreeting)
	line, err := lines.ReadSlice('\n')
	if err != nil {
		return Greeting{}, fmt.Errorf("read the first line of the server: %w", err)
	}
	g, encrypted, err := decodeGreeting(line)
	if err == nil && (encrypted || u.Scheme == "tls") {
		g.Certificates, err = certificates(ctx, conn, u.Hostname())
	}
	return g, err
}

// decodeGreeting reads a line INFO {...}.
func decodeGreeting(line []byte) (g Greeting, encrypted bool, err error) {
	body, ok := bytes.CutPrefix(line, []byte("INFO "))
	if !ok {
		return g, false, errors.New("its first line is not that of a NATS server")
	}
	var info struct {
		Name      string   `json:"server_name"`
		Version   string   `json:"version"`
		Cluster   string   `json:"cluster"`
		JetStream bool     `json:"jetstream"`
		Payload   int64    `json:"max_payload"`
		Required  bool     `json:"tls_required"`
		Available bool     `json:"tls_available"`
		URLs      []string `json:"connect_urls"`
	}
	if err := json.Unmarshal(body, &info); err != nil {
		return g, false, fmt.Errorf("read the first line of the server: %w", err)
	}
	g = Greeting{Server: strictyaml.Cut(info.Name, maxText), Version: strictyaml.Cut(info.Version, maxText), Cluster: strictyaml.Cut(info.Cluster, maxText), JetStream: info.JetStream, MaxPayload: info.Payload}
	for _, url := range info.URLs[:min(len(info.URLs), maxPeers)] {
		g.Peers = append(g.Peers, strictyaml.Cut(url, maxText))
	}
	slices.Sort(g.Peers)
	g.Peers = slices.Compact(g.Peers)
	return g, info.Required || info.Available, nil
}

// certificates returns the chain of a server that has sent its greeting. A client without a certificate of its own may be
// rejected at the end of the handshake. Then the chain is complete all the same.
func certificates(ctx context.Context, conn net.Conn, host string) ([]*x509.Certificate, error) {
	var chain []*x509.Certificate
	c := tls.Client(conn, &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: host,
		InsecureSkipVerify: true, // the chain is only shown, and nothing is sent
		VerifyConnection:   func(s tls.ConnectionState) error { chain = s.PeerCertificates; return nil },
	})
	err := c.HandshakeContext(ctx)
	if chain != nil {
		return chain, nil
	}
	return nil, fmt.Errorf("TLS handshake: %w", err)
}
