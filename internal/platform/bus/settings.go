package bus

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
)

// NATS is the block "nats" of weir.yaml: the servers, how a client proves its identity to them, and TLS. The zero value
// selects the bus of the data folder. Paths are absolute after Below.
type NATS struct {
	Servers []string `yaml:"servers"` // URLs of one cluster
	// At most one of the four ways is given. Each connection attempt reads the file again.
	CredentialsFile string `yaml:"credentials_file"` // user JWT and its seed, as nsc writes them
	NKeyFile        string `yaml:"nkey_file"`        // seed of a user nkey
	TokenFile       string `yaml:"token_file"`
	User            string `yaml:"user"` // with password_file
	PasswordFile    string `yaml:"password_file"`
	TLS             TLS    `yaml:"tls"`
	Replicas        int    `yaml:"replicas"` // of streams and buckets, 1 to 5; 0: see Bus.Replicas
}

// TLS has the files of an encrypted connection. With any of them, an unencrypted connection is an error.
type TLS struct {
	CAFile   string `yaml:"ca_file"`   // PEM certificates that sign the servers' certificates; default: those of the system
	CertFile string `yaml:"cert_file"` // PEM certificate of this client, with key_file
	KeyFile  string `yaml:"key_file"`
}

// Bounds of the block.
const (
	maxServers  = 32
	maxReplicas = 5 // the limit of JetStream
)

// Split returns the URLs of a list with commas.
func Split(list string) []string {
	var all []string
	for server := range strings.SplitSeq(list, ",") {
		if server = strings.TrimSpace(server); server != "" {
			all = append(all, server)
		}
	}
	return all
}

// At returns n with other servers. Credentials in their URLs replace those of n.
func (n NATS) At(servers []string) NATS {
	n.Servers = servers
	if slices.ContainsFunc(servers, hasUser) {
		n.CredentialsFile, n.NKeyFile, n.TokenFile, n.User, n.PasswordFile = "", "", "", "", ""
	}
	return n
}

// Below returns n with relative paths resolved below dir.
func (n NATS) Below(dir string) NATS {
	for _, path := range []*string{&n.CredentialsFile, &n.NKeyFile, &n.TokenFile, &n.PasswordFile, &n.TLS.CAFile, &n.TLS.CertFile, &n.TLS.KeyFile} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(dir, *path)
		}
	}
	return n
}

// poolPlaceholder stands for the pool of a user in the settings of credentials.
const poolPlaceholder = "{pool}"

// Of returns n with the credentials of a pool's user: the pool replaces {pool} in the names of files and of the user.
func (n NATS) Of(pool string) NATS {
	if pool == "" {
		return n
	}
	for _, text := range []*string{&n.CredentialsFile, &n.NKeyFile, &n.TokenFile, &n.User, &n.PasswordFile, &n.TLS.CertFile, &n.TLS.KeyFile} {
		*text = strings.ReplaceAll(*text, poolPlaceholder, pool)
	}
	return n
}

// Equal reports whether both blocks are the same.
func (n NATS) Equal(other NATS) bool { return reflect.DeepEqual(n, other) }

// Check returns all mistakes of the block. Their keys are relative to it.
func (n NATS) Check() strictyaml.Problems {
	var ps strictyaml.Problems
	at := func(key, format string, args ...any) {
		ps = append(ps, &strictyaml.Problem{Key: key, What: fmt.Sprintf(format, args...)})
	}
	if len(n.Servers) > maxServers {
		at("servers", "has %d servers: want at most %d", len(n.Servers), maxServers)
	}
	for i, server := range n.Servers {
		key := "servers[" + strconv.Itoa(i) + "]"
		if err := CheckServer(server); err != nil {
			at(key, "%v", err)
		}
		if slices.Contains(n.Servers[:i], server) {
			at(key, "is in the list twice: remove one")
		}
	}
	ps = append(ps, n.checkUser()...)
	if (n.TLS.CertFile == "") != (n.TLS.KeyFile == "") {
		at("tls", "has cert_file or key_file alone: give both, or neither")
	}
	if n.Replicas < 0 || n.Replicas > maxReplicas {
		at("replicas", "is %d: want 1 to %d", n.Replicas, maxReplicas)
	}
	return ps
}

// checkUser returns the mistakes of the four ways to prove an identity, and of keys without servers.
func (n NATS) checkUser() (ps strictyaml.Problems) {
	var ways []string
	for _, way := range []struct{ key, value string }{
		{"credentials_file", n.CredentialsFile}, {"nkey_file", n.NKeyFile}, {"token_file", n.TokenFile}, {"user", n.User},
	} {
		if way.value != "" {
			ways = append(ways, way.key)
		}
	}
	if len(ways) > 1 {
		ps = append(ps, &strictyaml.Problem{Key: ways[1], What: "conflicts with " + ways[0] + ": keep one way to authenticate"})
	}
	if (n.User == "") != (n.PasswordFile == "") {
		ps = append(ps, &strictyaml.Problem{Key: "user", What: "needs password_file, and password_file needs user: give both, or neither"})
	}
	if len(ways) > 0 && slices.ContainsFunc(n.Servers, hasUser) {
		ps = append(ps, &strictyaml.Problem{Key: ways[0], What: "conflicts with the user in a server's URL: remove the user from the URL"})
	}
	if len(n.Servers) == 0 && (len(ways) > 0 || n.PasswordFile != "" || n.TLS != (TLS{}) || n.Replicas != 0) {
		ps = append(ps, &strictyaml.Problem{Key: "servers", What: "is missing: the other keys need it"})
	}
	return ps
}

// CheckServer returns an error if server is not the URL of a NATS server. The error contains no secret.
func CheckServer(server string) error {
	u, err := parseServer(server)
	switch {
	case err != nil:
		return errors.New("is not a URL: want nats://HOST:PORT or tls://HOST:PORT")
	case u.Scheme != "nats" && u.Scheme != "tls":
		return fmt.Errorf("has the scheme %q: want nats://HOST:PORT or tls://HOST:PORT", strictyaml.Cut(u.Scheme, 20))
	case u.Hostname() == "":
		return errors.New("has no host: want nats://HOST:PORT or tls://HOST:PORT")
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return errors.New("has more than a host and a port: want nats://HOST:PORT or tls://HOST:PORT")
	}
	return nil
}

// parseServer parses a server's URL. Without a scheme it is nats.
func parseServer(server string) (*url.URL, error) {
	if !strings.Contains(server, "://") {
		server = "nats://" + server
	}
	return url.Parse(server)
}

// hasUser reports whether a URL has a user or a token.
func hasUser(server string) bool {
	u, err := parseServer(server)
	return err == nil && u.User != nil
}

// Show returns the URLs without secrets.
func (n NATS) Show() string { return redact(strings.Join(n.Servers, ",")) }

// Secret reports whether a server's URL has a password or a token.
func (n NATS) Secret() bool { return slices.ContainsFunc(n.Servers, hasUser) }
