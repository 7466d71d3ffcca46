package release

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// cachedPatience is how long a bucket is waited for when the release that is
// wanted is in the cache.
const cachedPatience = 2 * time.Second

// Config says where a cache is, and how it fetches.
type Config struct {
	Dir      string   // the cache's folder; made if it does not exist
	Platform Platform // what is fetched; zero is that of this process
	// Patience is how long a bucket that is unavailable or silent is waited
	// for; zero is DefaultPatience. It is shorter when the release is in the
	// cache.
	Patience time.Duration
	// Progress, if set, is told of a download's bytes: how many there are, and
	// of how many. It may be called concurrently for different releases.
	Progress func(ref Ref, done, total int64)
}

// WithDefaults returns the configuration with every zero field filled.
func (c Config) WithDefaults() Config {
	if c.Platform == (Platform{}) {
		c.Platform = Host()
	}
	if c.Patience == 0 {
		c.Patience = DefaultPatience
	}
	if c.Progress == nil {
		c.Progress = func(Ref, int64, int64) {}
	}
	return c
}

// Validate returns every problem of the configuration, joined.
func (c Config) Validate() error {
	errs := []error{c.Platform.Validate()}
	if c.Dir == "" {
		errs = append(errs, errors.New("release cache: no folder is given"))
	}
	if c.Patience < 0 {
		errs = append(errs, fmt.Errorf("release cache: patience %v is negative", c.Patience))
	}
	return errors.Join(errs...)
}

// Cache is a folder of verified releases.
type Cache struct {
	cfg Config

	mu      sync.Mutex
	flights map[flightKey]*flight
}

// OpenCache opens a cache, and removes from its folder what dead processes left.
func OpenCache(cfg Config) (*Cache, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("open the release cache: %w", err)
	}
	cfg.Dir = dir
	c := &Cache{cfg: cfg, flights: map[flightKey]*flight{}}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("open the release cache: %w", err)
	}
	if err := c.locked(c.sweep); err != nil {
		return nil, fmt.Errorf("open the release cache: %w", err)
	}
	return c, nil
}

// Installed is a release in the cache, as it was when its files were verified.
type Installed struct {
	Ref      Ref
	Digest   Digest // of the archive
	Dir      string // absolute; holds the files
	Entry    string // path in Dir of the executable to start
	Manifest Manifest
	// Away is why the bucket did not answer, if the release comes from the
	// cache without its word; else nil.
	Away error
}

// Open opens a file of the release, Entry as a rule, hashes it through the
// descriptor and returns it at its beginning: what is executed as /proc/self/fd/N
// is what was verified. ErrNotFound if the manifest has no such file, ErrCorrupt
// if its bytes are others.
func (in Installed) Open(path string) (*os.File, error) {
	file, ok := in.Manifest.file(path)
	if !ok {
		return nil, fmt.Errorf("open %s of release %s: %w", path, in.Ref, ErrNotFound)
	}
	root, err := os.OpenRoot(in.Dir)
	if err != nil {
		return nil, fmt.Errorf("open release %s: %w", in.Ref, err)
	}
	defer root.Close()
	f, err := openVerified(root, file)
	if err != nil {
		return nil, fmt.Errorf("open release %s in %s: %w", in.Ref, in.Dir, err)
	}
	return f, nil
}

// openVerified opens a file and compares it with the manifest: permission, size,
// digest.
func openVerified(root *os.Root, file File) (*os.File, error) {
	f, info, err := openRegular(root, file.Path)
	if err != nil {
		return nil, err
	}
	hash := sha256.New()
	n, err := io.Copy(hash, io.LimitReader(f, file.Size+1))
	if err == nil {
		err = matches(file, n, Digest(hash.Sum(nil)))
	}
	if err == nil && info.Mode().Perm() != os.FileMode(file.Mode) {
		err = fmt.Errorf("%w: %s has mode %v, the manifest says %v", ErrCorrupt, file.Path, Mode(info.Mode().Perm()), file.Mode)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// verify compares every file of the manifest with the one in dir. What else is
// in dir does not count: an interpreter may keep its own files there.
func verify(dir string, m Manifest) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, file := range m.Files {
		f, err := openVerified(root, file)
		if err != nil {
			return err
		}
		f.Close()
	}
	return nil
}

// installed returns where the release is, or will be.
func (c *Cache) installed(m Manifest) Installed {
	dir := filepath.Join(c.cfg.Dir, "sha256-"+m.Object.SHA256.String())
	return Installed{Ref: m.Ref, Digest: m.Object.SHA256, Dir: dir, Entry: m.Entry, Manifest: m}
}

// indexPath is where the manifest of a release from this bucket is remembered.
// Buckets are told apart by the digest of their URL.
func (c *Cache) indexPath(b Bucket, ref Ref) string {
	source := sha256.Sum256([]byte(b.URL("")))
	return filepath.Join(c.cfg.Dir, "refs", hex.EncodeToString(source[:8]),
		filepath.FromSlash(ref.folder()), c.cfg.Platform.String()+".json")
}

// lookup returns the release as it was fetched from this bucket before, its
// files verified.
func (c *Cache) lookup(b Bucket, ref Ref) (Installed, error) {
	f, err := os.Open(c.indexPath(b, ref))
	if err != nil {
		return Installed{}, fmt.Errorf("not in the cache %s", c.cfg.Dir)
	}
	defer f.Close()
	m, err := DecodeManifest(f)
	if err == nil && (m.Ref != ref || m.Platform != c.cfg.Platform) {
		err = fmt.Errorf("%w: remembers %s for %s", ErrCorrupt, m.Ref, m.Platform)
	}
	if err != nil {
		return Installed{}, fmt.Errorf("cache index %s: %w", f.Name(), err)
	}
	in := c.installed(m)
	if err := verify(in.Dir, m); err != nil {
		return Installed{}, fmt.Errorf("cached in %s: %w", in.Dir, err)
	}
	return in, nil
}

// remember notes the manifest of a release, for the day when the bucket is away.
func (c *Cache) remember(b Bucket, m Manifest) error {
	data, err := m.encode()
	if err != nil {
		return err
	}
	path := c.indexPath(b, m.Ref)
	if before, err := os.ReadFile(path); err == nil && bytes.Equal(before, data) {
		return nil
	}
	return c.locked(func() error {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		f, err := os.CreateTemp(c.cfg.Dir, tempPrefix+"*.json")
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.Write(data)
		if err := errors.Join(err, f.Sync()); err != nil {
			return errors.Join(err, os.Remove(f.Name()))
		}
		if err := os.Rename(f.Name(), path); err != nil {
			return err
		}
		return syncDir(filepath.Dir(path))
	})
}
