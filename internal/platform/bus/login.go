package bus

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/weirkeeper/weirkeeper/internal/platform/inputfile"
)

// maxFile bounds each file of the block, in bytes.
const maxFile = 256 << 10

// material is the content of the block's files at one time. The zero value is a block without files.
type material struct {
	jwt      string
	key      nkeys.KeyPair // of the JWT, or of the nkey file
	nkey     string        // public key of the nkey file
	token    string
	password string
	cas      *x509.CertPool
	cert     *tls.Certificate
	digest   [sha256.Size]byte // of all files
}

// fileError is the error of a file that the block names. It has the remedy.
type fileError struct {
	key, path string
	err       error
}

func (e *fileError) Error() string { return fmt.Sprintf("nats.%s %s: %v", e.key, e.path, e.err) }
func (e *fileError) Unwrap() error { return e.err }

// files reports whether the block names a file.
func (n NATS) files() bool {
	return n.CredentialsFile+n.NKeyFile+n.TokenFile+n.PasswordFile+n.TLS.CAFile+n.TLS.CertFile != ""
}

// read reads all files of the block. The error names each wrong file with its key and the remedy, in one line each.
func (n NATS) read() (material, error) {
	var m material
	var errs []error
	sum := sha256.New()
	take := func(key, path string, secret bool, use func(data []byte) error) {
		if path == "" {
			return
		}
		data, err := readFile(path, secret)
		if err == nil {
			fmt.Fprintf(sum, "%s: %d\n%s", key, len(data), data)
			err = use(data)
		}
		if err != nil {
			errs = append(errs, &fileError{key, path, err})
		}
	}
	take("credentials_file", n.CredentialsFile, true, m.takeCredentials)
	take("nkey_file", n.NKeyFile, true, m.takeNKey)
	take("token_file", n.TokenFile, true, func(data []byte) (err error) { m.token, err = line(data); return err })
	take("password_file", n.PasswordFile, true, func(data []byte) (err error) { m.password, err = line(data); return err })
	take("tls.ca_file", n.TLS.CAFile, false, m.takeCAs)
	var certificate []byte
	take("tls.cert_file", n.TLS.CertFile, false, func(data []byte) error { certificate = data; return nil })
	take("tls.key_file", n.TLS.KeyFile, true, func(data []byte) error {
		if certificate == nil {
			return nil // its own mistake is reported
		}
		return m.takeCertificate(certificate, data)
	})
	sum.Sum(m.digest[:0])
	return m, errors.Join(errs...)
}

// readFile reads a file of at most maxFile bytes. Other users must not have access to a secret one.
func readFile(path string, secret bool) ([]byte, error) {
	f, err := inputfile.Open(path)
	if err != nil {
		return nil, bare(err)
	}
	defer f.Close() // only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); secret && inputfile.ReadableByOthers(path, mode) {
		return nil, fmt.Errorf("has mode %04o, so other users can read it: run \"chmod 600 %s\"", mode, path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, bare(err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("is longer than %d bytes: name the right file", maxFile)
	}
	return data, nil
}

// bare returns err without the operation and the path, which the caller adds, and with the remedy.
func bare(err error) error {
	path, ok := errors.AsType[*fs.PathError](err)
	switch {
	case !ok:
		return err
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: name a file that exists", path.Err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: let this user read it, or name another file", path.Err)
	}
	return fmt.Errorf("%w: name another file", path.Err)
}

// line returns the only line of a file.
func line(data []byte) (string, error) {
	text := strings.TrimSpace(string(data))
	if text == "" || strings.ContainsAny(text, "\r\n\x00") {
		return "", errors.New("is empty or has several lines: want one line")
	}
	return text, nil
}

func (m *material) takeCredentials(data []byte) (err error) {
	if m.jwt, err = nkeys.ParseDecoratedJWT(data); err == nil {
		m.key, err = nkeys.ParseDecoratedUserNKey(data)
	}
	if err != nil || strings.Count(m.jwt, ".") != 2 {
		return errors.New("has no user JWT with its seed: want a file as nsc writes it with \"nsc generate creds\"")
	}
	return nil
}

func (m *material) takeNKey(data []byte) error {
	pair, err := nkeys.ParseDecoratedNKey(data)
	if err == nil {
		m.key = pair
		m.nkey, err = pair.PublicKey()
	}
	if err != nil || !nkeys.IsValidPublicUserKey(m.nkey) {
		return errors.New("has no seed of a user nkey: want a line that begins with SU")
	}
	return nil
}

func (m *material) takeCAs(data []byte) error {
	m.cas = x509.NewCertPool()
	if !m.cas.AppendCertsFromPEM(data) {
		return errors.New("has no PEM certificate: name the certificates of the authority")
	}
	return nil
}

func (m *material) takeCertificate(certificate, key []byte) error {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return fmt.Errorf("does not fit tls.cert_file: %w; give a PEM certificate and its key", err)
	}
	if end := pair.Leaf.NotAfter; time.Now().After(end) {
		return fmt.Errorf("the certificate of tls.cert_file expired at %s: renew it", end.UTC().Format(time.RFC3339))
	}
	m.cert = &pair
	return nil
}

// login chooses the material of each connection attempt: the files' content, or the last accepted material while that
// content is invalid or rejected. It is safe for concurrent use.
type login struct {
	block NATS
	fixed bool // the material never changes

	mu       sync.Mutex
	accepted material          // the last one that a server accepted, at first the one at the start
	current  material          // of the newest attempt
	rejected [sha256.Size]byte // digest of the files' content that a server rejected
	problem  error             // why the files' content is not in use; nil if it is
}

// attempt reads the files for one connection attempt.
func (l *login) attempt() material {
	if l.fixed {
		return l.now()
	}
	fresh, err := l.block.read()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current = fresh
	if err != nil || fresh.digest == l.rejected {
		l.current = l.accepted
	}
	return l.current
}

// now returns the material of the newest attempt.
func (l *login) now() material {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current
}

// connected reports that a server accepted the newest attempt.
func (l *login) connected() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accepted = l.current
}

// reject stores why the content with that digest is not in use. It reports whether that is news.
func (l *login) reject(digest [sha256.Size]byte, why error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	news := l.problem == nil || l.problem.Error() != why.Error()
	l.rejected, l.problem = digest, why
	return news
}

// use clears the rejection of earlier content.
func (l *login) use() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rejected, l.problem = [sha256.Size]byte{}, nil
}

// inUse reports whether a server accepted that content.
func (l *login) inUse(digest [sha256.Size]byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.accepted.digest == digest
}

func (l *login) trouble() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.problem
}
