package natsinit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natscert"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsconf"
)

const (
	caCert, caKey         = "ca.crt", "ca.key"
	serverCert, serverKey = "server.crt", "server.key"
)

// certificates adds the authority and the certificate of each server.
func (p *Plan) certificates(o Options) error {
	if (o.CAFile == "") != (o.CertFolder == "") {
		return errors.New("--ca and --certs belong together: the certificate of the authority, and a folder with NAME.crt and NAME.key of each server")
	}
	authority, ca, err := p.authority(o)
	if err != nil {
		return err
	}
	for _, s := range p.Site.Servers {
		cert, key, err := p.certificate(o, s, authority, ca)
		if err != nil {
			return err
		}
		folder := filepath.Join("servers", s.Name)
		p.file(filepath.Join(folder, "ca.crt"), authority, false)
		p.file(filepath.Join(folder, serverKey), key, true)
		p.file(filepath.Join(folder, serverCert), cert, false)
	}
	return nil
}

// authority returns the certificate of the authority; ca is nil if its key is not in the folder.
func (p *Plan) authority(o Options) (cert []byte, ca *natscert.CA, err error) {
	old, err := readBounded(filepath.Join(p.Folder, caCert))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("read the certificate authority: %w", err)
	}
	exists := err == nil && !o.Force
	if o.CAFile != "" {
		given, err := readBounded(o.CAFile)
		if err != nil {
			return nil, nil, fmt.Errorf("read the certificate authority: %w", err)
		}
		if exists && !bytes.Equal(given, old) {
			return nil, nil, fmt.Errorf("%s differs from %s: replace all keys with --force, or name another folder with --dir", o.CAFile, filepath.Join(p.Folder, caCert))
		}
		p.file(caCert, given, false)
		return given, nil, nil
	}
	if exists {
		p.file(caCert, old, false)
		key, err := readBounded(filepath.Join(p.Folder, caKey))
		if errors.Is(err, fs.ErrNotExist) {
			return old, nil, nil // it is kept offline
		}
		if err == nil {
			ca, err = natscert.ParseCA(old, key)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%w; restore %s, or replace all keys with --force", err, filepath.Join(p.Folder, caKey))
		}
		p.file(caKey, key, true)
		return old, ca, nil
	}
	if ca, err = natscert.NewCA("weir NATS", o.Now); err != nil {
		return nil, nil, err
	}
	p.file(caKey, ca.Key, true)
	p.file(caCert, ca.Cert, false)
	return ca.Cert, ca, nil
}

// certificate returns the given certificate of a server, the existing one, or a new one.
func (p *Plan) certificate(o Options, s natsconf.Server, authority []byte, ca *natscert.CA) (cert, key []byte, err error) {
	hosts := []string{s.Name}
	if s.Host != "" {
		hosts = []string{s.Host}
	}
	from := filepath.Join(p.Folder, "servers", s.Name)
	certFile, keyFile, remedy := filepath.Join(from, serverCert), filepath.Join(from, serverKey), "remove it to get a new one"
	if o.CertFolder != "" {
		certFile, keyFile = filepath.Join(o.CertFolder, s.Name+".crt"), filepath.Join(o.CertFolder, s.Name+".key")
		remedy = "give a certificate of the authority for these names"
	}
	cert, err = readBounded(certFile)
	if errors.Is(err, fs.ErrNotExist) && o.CertFolder == "" || o.Force && o.CertFolder == "" {
		if ca == nil {
			return nil, nil, fmt.Errorf("server %s has no certificate, and %s is missing: restore it, or pass --ca and --certs", s.Name, filepath.Join(p.Folder, caKey))
		}
		return ca.Server(s.Name, append(hosts, "localhost", "127.0.0.1"), o.Now)
	}
	if err == nil {
		key, err = readBounded(keyFile)
	}
	if err == nil {
		err = natscert.Check(authority, cert, key, hosts, o.Now)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("certificate %s of server %s: %w; %s", certFile, s.Name, err, remedy)
	}
	return cert, key, nil
}
