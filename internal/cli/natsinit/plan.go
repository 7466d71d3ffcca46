package natsinit

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/nkeys"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsconf"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/flock"
	"github.com/weirkeeper/weirkeeper/internal/platform/wholefile"
)

// Places of the files on the hosts of the servers.
const (
	InstallFolder = "/etc/nats"
	StoreFolder   = "/var/lib/nats"
)

// Action is what Write does with a file.
type Action string

const (
	Create  Action = "create"
	Replace Action = "replace"
	Keep    Action = "keep"
	Revoke  Action = "revoke" // rename, so that no server accepts the key
)

// File is one file of the folder.
type File struct {
	Path   string `json:"path"` // below the folder
	Action Action `json:"action"`
	Secret bool   `json:"secret,omitempty"`
	text   []byte
}

// Text returns the content of a file without secrets; empty for a secret.
func (f File) Text() string {
	if f.Secret {
		return ""
	}
	return string(f.text)
}

// Plan is what a run makes.
type Plan struct {
	Folder string
	Files  []File // in the order in which they are written
	Site   natsconf.Site
}

// Prepare reads the folder and returns what a run with these options makes. It changes nothing.
func Prepare(o Options) (*Plan, error) {
	l, err := load(o.Folder)
	if err != nil {
		return nil, err
	}
	known := len(l.Servers) > 0
	if err := l.add(o); err != nil {
		return nil, err
	}
	p := &Plan{Folder: o.Folder}
	if !known && !o.Force {
		if err := p.foreign(); err != nil {
			return nil, err
		}
	}
	p.Site.Clusters = l.Clusters
	for _, h := range l.Servers {
		p.Site.Servers = append(p.Site.Servers, natsconf.Server{
			Name: h.Name, Host: h.Host, Folder: InstallFolder, Store: StoreFolder,
		})
	}
	text, err := l.encode()
	if err != nil {
		return nil, err
	}
	p.file(siteFile, text, false)
	if err := p.keys(l.verified(), o); err != nil {
		return nil, err
	}
	if err := p.Site.Validate(); err != nil {
		return nil, err
	}
	if err := p.certificates(o); err != nil {
		return nil, err
	}
	if p.Site.Issuer != "" {
		daemons, err := p.Site.Daemons()
		if err != nil {
			return nil, err
		}
		p.file(natsconf.DaemonsFile, daemons, false)
	}
	accounts := []byte(p.Site.Accounts())
	for _, s := range p.Site.Servers {
		p.file(filepath.Join("servers", s.Name, natsconf.AccountsFile), accounts, false)
		p.file(filepath.Join("servers", s.Name, "nats.conf"), []byte(p.Site.Server(s.Name)), false)
	}
	return p, nil
}

// foreign refuses a folder that has keys but no site.json.
func (p *Plan) foreign() error {
	for _, pattern := range []string{"roles/*.nk", "ca.key", "ca.crt", "issuer.nk"} {
		found, err := filepath.Glob(filepath.Join(p.Folder, pattern))
		if err != nil {
			return err
		}
		if len(found) > 0 {
			return fmt.Errorf("%s exists, but %s has no %s: name another folder with --dir, or replace all keys with --force", found[0], p.Folder, siteFile)
		}
	}
	return nil
}

// file adds a file with this content.
func (p *Plan) file(path string, text []byte, secret bool) {
	f := File{Path: path, Action: Create, Secret: secret, text: text}
	if old, err := readBounded(filepath.Join(p.Folder, path)); err == nil {
		f.Action = Replace
		if string(old) == string(text) {
			f.Action = Keep
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		f.Action = Replace
	}
	p.Files = append(p.Files, f)
}

// keys reads the key of each user, and makes the missing ones.
func (p *Plan) keys(verified bool, o Options) (err error) {
	force := o.Force
	if verified {
		if p.Site.Issuer, err = p.key("issuer.nk", nkeys.PrefixByteAccount, force); err != nil {
			return err
		}
	}
	if err := p.revoke(o.Revoke); err != nil {
		return err
	}
	p.Site.Keys = map[string][]string{}
	for _, u := range p.Site.Users() {
		if err := u.Validate(); err != nil { // before its name is that of a file
			return err
		}
		if p.Site.Keys[u.Name()], err = p.userKeys(u.Name(), force); err != nil {
			return err
		}
	}
	p.Site.SystemKeys, err = p.userKeys(natsconf.SystemUser, force)
	return err
}

const (
	keySuffix     = ".nk"
	formerSuffix  = ".nk.old"
	revokedSuffix = ".revoked" // after one of the others
)

// revoke plans to rename the keys of these users, and reads the keys that were revoked before. A second run after a run that died
// completes it.
func (p *Plan) revoke(names []string) error {
	p.Site.Revoked = map[string][]string{}
	known := map[string]bool{natsconf.SystemUser: false}
	for _, u := range p.Site.Users() {
		known[u.Name()] = p.Site.ByCallout(u)
	}
	for _, name := range names {
		if _, ok := known[name]; !ok {
			return fmt.Errorf("--revoke %.80q: the folder has no such user: name a file of %s without .nk", name, filepath.Join(p.Folder, "roles"))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		revoked := false
		for _, suffix := range []string{keySuffix, formerSuffix} {
			one, err := p.revokeKey(name, suffix, slices.Contains(names, name), known[name])
			if err != nil {
				return err
			}
			revoked = revoked || one
		}
		if slices.Contains(names, name) && !revoked {
			return fmt.Errorf("--revoke %s: %s does not exist", name, filepath.Join(p.Folder, "roles", name+keySuffix))
		}
	}
	return nil
}

// revokeKey plans the revocation of one key, if it is named and exists, or reads the key that was revoked before. It reports whether
// there is one. The servers have the key in their files unless a callout verifies the user.
func (p *Plan) revokeKey(name, suffix string, named, byCallout bool) (revoked bool, err error) {
	path := filepath.Join("roles", name+suffix)
	key, err := p.readKey(path+revokedSuffix, nkeys.PrefixByteUser)
	revoked = err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if named {
		present, err := p.readKey(path, nkeys.PrefixByteUser)
		switch {
		case err == nil && revoked:
			remedy := "remove it, run the command without --revoke, and restart the servers one at a time; then revoke the new key"
			if byCallout {
				remedy = fmt.Sprintf("%s has a new key since; to revoke that one too, remove the file first; otherwise run the command without --revoke", name)
			}
			return false, fmt.Errorf("--revoke %s: %s is there from an earlier revocation: %s", name, filepath.Join(p.Folder, path+revokedSuffix), remedy)
		case err == nil:
			p.Files = append(p.Files, File{Path: path, Action: Revoke, Secret: true})
			key, revoked = present, true
		case !errors.Is(err, fs.ErrNotExist):
			return false, err
		}
	}
	if revoked && !byCallout {
		p.Site.Revoked[name] = append(p.Site.Revoked[name], key)
	}
	return revoked, nil
}

// revokes reports whether this run revokes the key of the user.
func (p *Plan) revokes(name string) bool {
	path := filepath.Join("roles", name+keySuffix)
	return slices.ContainsFunc(p.Files, func(f File) bool { return f.Action == Revoke && f.Path == path })
}

// userKeys returns the public keys of a user: its own, and the old one.
func (p *Plan) userKeys(name string, force bool) ([]string, error) {
	if len(p.Site.Revoked[name]) > 0 { // a new key needs a restart of the servers, so it waits until the revoked one is removed
		return nil, nil
	}
	path := filepath.Join("roles", name+keySuffix)
	public, err := p.key(path, nkeys.PrefixByteUser, force || p.revokes(name))
	if err != nil || p.revokes(name) {
		return []string{public}, err
	}
	former, err := p.readKey(filepath.Join("roles", name+formerSuffix), nkeys.PrefixByteUser)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return []string{public}, nil
	case err == nil && force:
		return nil, fmt.Errorf("%s would stay valid: remove it before --force", filepath.Join(p.Folder, "roles", name+formerSuffix))
	}
	return []string{public, former}, err
}

// key returns the public key of a file, and makes a key if the file is missing.
func (p *Plan) key(path string, kind nkeys.PrefixByte, force bool) (public string, err error) {
	if !force {
		public, err = p.readKey(path, kind)
		if err == nil {
			p.Files = append(p.Files, File{Path: path, Action: Keep, Secret: true})
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return public, err
		}
	}
	pair, err := nkeys.CreatePair(kind)
	if err != nil {
		return "", fmt.Errorf("make key %s: %w", path, err)
	}
	seed, err := pair.Seed()
	if err == nil {
		public, err = pair.PublicKey()
	}
	if err != nil {
		return "", fmt.Errorf("make key %s: %w", path, err)
	}
	p.file(path, append(seed, '\n'), true)
	return public, nil
}

// readKey returns the public key of an existing file.
func (p *Plan) readKey(path string, kind nkeys.PrefixByte) (public string, err error) {
	full := filepath.Join(p.Folder, path)
	seed, err := readBounded(full)
	if errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	var is nkeys.PrefixByte
	if err == nil {
		seed = []byte(strings.TrimSpace(string(seed)))
		is, _, err = nkeys.DecodeSeed(seed)
	}
	if err == nil && is != kind {
		err = fmt.Errorf("it is a key of kind %s, want %s", is, kind)
	}
	var pair nkeys.KeyPair
	if err == nil {
		pair, err = nkeys.FromSeed(seed)
	}
	if err == nil {
		public, err = pair.PublicKey()
	}
	if err != nil {
		return "", fmt.Errorf("read key %s: %w; restore the file, or remove it to get a new key", full, err)
	}
	return public, nil
}

// Write makes the files. Another run on the same folder waits for no one: it is refused.
func (p *Plan) Write() error {
	if err := os.MkdirAll(p.Folder, 0o700); err != nil {
		return fmt.Errorf("write %s: %w", p.Folder, err)
	}
	lock, err := flock.Lock(filepath.Join(p.Folder, ".lock"))
	if err != nil {
		return fmt.Errorf("write %s: %w; wait for the other run", p.Folder, err)
	}
	defer lock.Unlock()
	for _, f := range p.Files {
		if f.Action == Keep {
			continue
		}
		path := filepath.Join(p.Folder, f.Path)
		if f.Action == Revoke {
			if err := os.Rename(path, path+revokedSuffix); err != nil {
				return fmt.Errorf("revoke a key: %w", err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		if f.Action == Create && f.Secret {
			if _, err := os.Lstat(path); err == nil {
				return fmt.Errorf("write %s: another run has written it meanwhile; run the command again", path)
			}
		}
		if err := wholefile.Write(path, f.text); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		if !f.Secret { // other users of a host read a copy, which has the same mode
			if err := os.Chmod(path, 0o644); err != nil {
				return fmt.Errorf("write %s: %w", path, err)
			}
		}
	}
	return nil
}

// URLs returns the addresses of the servers for clients.
func (p *Plan) URLs() (all []string) {
	for _, s := range p.Site.Servers {
		all = append(all, fmt.Sprintf("tls://%s:%d", cmp.Or(s.Host, s.Name), 4222))
	}
	return all
}

// Verified reports whether a service verifies agents.
func (p *Plan) Verified() bool {
	return slices.ContainsFunc(p.Site.Users(), func(u roles.User) bool { return u.Role == roles.Auth })
}
