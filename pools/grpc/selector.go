package grpc

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
)

// selector is the value of the key "grpc" in a pool file. It selects groups of one server.
type selector struct {
	Address string        `yaml:"address"` // host:port, or unix:///path of a socket
	TLS     *tlsFiles     `yaml:"tls"`     // nil: the connection is not encrypted
	Group   string        `yaml:"group"`   // id of a group, or a pattern with * and ?
	Timeout time.Duration `yaml:"timeout"` // of a call; default 5s
}

// tlsFiles has the files of an encrypted connection. The server's certificate is always checked.
type tlsFiles struct {
	CAFile     string `yaml:"ca_file"`   // PEM certificates that sign the server's; default: those of the system
	CertFile   string `yaml:"cert_file"` // PEM certificate of this client, with key_file; each connection reads both again
	KeyFile    string `yaml:"key_file"`
	ServerName string `yaml:"server_name"` // in the server's certificate; default: the host of the address
}

const (
	defaultTimeout = 5 * time.Second
	maxTimeout     = time.Minute
	unixScheme     = "unix://"
)

// Check implements provider.Group.
func (s *selector) Check() strictyaml.Problems {
	var ps strictyaml.Problems
	problem := func(key, format string, args ...any) {
		ps = append(ps, &strictyaml.Problem{Key: key, What: fmt.Sprintf(format, args...)})
	}
	network, at, err := s.place()
	switch {
	case err != nil:
		problem("address", "%v", err)
	case s.TLS == nil && network == "tcp" && !loopback(at):
		problem("tls", "is missing: %s is not on this host, and each program that answers there could order and end machines; want ca_file, cert_file and key_file, or {} for the certificates of the system", at)
	case s.TLS != nil && network == "unix" && s.TLS.ServerName == "":
		problem("tls.server_name", "is missing: a socket has no host, which the certificate could name")
	}
	if s.TLS != nil {
		for _, f := range [][2]string{{"ca_file", s.TLS.CAFile}, {"cert_file", s.TLS.CertFile}, {"key_file", s.TLS.KeyFile}} {
			if f[1] != "" && !filepath.IsAbs(f[1]) {
				problem("tls."+f[0], "is %q: want an absolute path", f[1])
			}
		}
		if (s.TLS.CertFile == "") != (s.TLS.KeyFile == "") {
			problem("tls", "has cert_file or key_file alone: give both, or neither")
		}
	}
	if _, err := path.Match(s.Group, ""); err != nil || !validGroup(s.Group) {
		problem("group", "is %q: want the id of a group, or a pattern such as \"web-*\"", s.Group)
	}
	if s.Timeout < 0 || s.Timeout > maxTimeout {
		problem("timeout", "is %v: want at most %v", s.Timeout, maxTimeout)
	}
	return ps
}

// place returns the network and the address that a connection is made to.
func (s *selector) place() (network, at string, err error) {
	if file, ok := strings.CutPrefix(s.Address, unixScheme); ok {
		if !filepath.IsAbs(file) {
			return "", "", fmt.Errorf("is %q: want unix:///path, with three slashes", s.Address)
		}
		return "unix", file, nil
	}
	host, port, err := net.SplitHostPort(s.Address)
	if err != nil || host == "" || port == "" || strings.ContainsAny(s.Address, "/ ") {
		return "", "", fmt.Errorf("is %q: want host:port or unix:///path", s.Address)
	}
	return "tcp", s.Address, nil
}

// loopback reports whether host:port is on this host.
func loopback(at string) bool {
	host, _, _ := net.SplitHostPort(at)
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// named reports whether the selector names one group.
func (s *selector) named() bool { return !strings.ContainsAny(s.Group, `*?[\`) }

// selects reports whether the selector selects the group with that id.
func (s *selector) selects(id string) bool {
	if s.named() {
		return id == s.Group
	}
	ok, _ := path.Match(s.Group, id) // Check has returned the error
	return ok
}

func (s *selector) timeout() time.Duration { return cmp.Or(s.Timeout, defaultTimeout) }
