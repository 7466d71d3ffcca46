package release

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap/release/shareddir"
)

// cachedPatience is how long a bucket is waited for when the release that is
// wanted is in the cache.
const cachedPatience = 2 * time.Second

// What is in a cache's folder.
const (
	indexName   = "refs"    // what is remembered of releases
	plansName   = "plans"   // what the pools run, within the index
	filesPrefix = "sha256-" // begins the name of a release's folder
	filesName   = "files"   // in a temporary folder, before it has that name
)

// Config says where a cache is, and how it fetches.
type Config struct {
	Dir      string   // the cache's folder; made if it does not exist
	Platform Platform // what is fetched; zero is that of this process
	// Patience is how long a bucket that is unavailable or silent is waited
	// for; zero is DefaultPatience. It is shorter when the release is in the
	// cache.
	Patience time.Duration
	Trust    Trust // whose releases are fetched
	// Shared keeps for several hosts what was first seen of versions; nil: only this cache
	// does.
	Shared Memory
	// Progress, if set, is told of a download's bytes: how many there are, and
	// of how many; at its beginning, at its end, and about a hundred times in
	// between. It may be called concurrently for different releases.
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
	errs := []error{c.Platform.Validate(), c.Trust.Validate()}
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
	cfg     Config
	folder  shareddir.Dir
	index   index
	seen    Memory
	flights flights
}

// OpenCache opens a cache, and removes from its folder what dead processes left.
// The lock of the folder, which all that change it share, is waited for until ctx
// ends, up to a minute; then the error names its file. So do Use, Collect and the
// fetching methods.
func OpenCache(ctx context.Context, cfg Config) (*Cache, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("open the release cache: %w", err)
	}
	cfg.Dir = dir
	c := &Cache{cfg: cfg, folder: shareddir.Dir(dir), index: index{shareddir.Dir(dir), cfg.Platform}, seen: seenFiles{shareddir.Dir(dir)}}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("open the release cache: %w", err)
	}
	err = c.folder.Locked(ctx, func() error { return errors.Join(c.folder.Sweep(), c.folder.SweepPartials(time.Now())) })
	if err != nil {
		return nil, fmt.Errorf("open the release cache: %w", err)
	}
	return c, nil
}

func (c *Cache) installed(m Manifest) Installed {
	return Installed{Ref: m.Ref, Digest: m.Object.SHA256, Dir: c.filesPath(m.Object.SHA256), Entry: m.Entry, Manifest: m}
}

func (c *Cache) filesPath(archive Digest) string {
	return filepath.Join(c.cfg.Dir, filesPrefix+archive.String())
}
