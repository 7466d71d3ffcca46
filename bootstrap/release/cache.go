package release

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap/release/shareddir"
)

// cachedRetryTimeout bounds the retries of a bucket if the requested release is in the cache.
const cachedRetryTimeout = 2 * time.Second

// Entries of a cache's folder.
const (
	indexName   = "refs"    // what the bucket returned for each release
	plansName   = "plans"   // below the index: the releases that the pools run
	filesPrefix = "sha256-" // begins the name of a release's folder
	filesName   = "files"   // in a temporary folder, before the rename
)

// Config configures a cache.
type Config struct {
	Dir      string   // the cache's folder; created if missing
	Platform Platform // of the fetched releases; zero: that of this process
	// RetryTimeout bounds how long an unavailable or silent bucket is retried. Zero means defaultRetryTimeout. The
	// bound is shorter if the release is in the cache.
	RetryTimeout time.Duration
	Trust        Trust // decides whose releases are accepted
	// Shared stores the first-seen records of versions for several hosts; nil: only this cache stores them.
	Shared SeenStore
	// Progress, if set, receives the downloaded and the total bytes of a download: at its beginning, at its end, and
	// about a hundred times in between. Calls for different releases may be concurrent.
	Progress func(ref Ref, done, total int64)
}

// WithDefaults returns the configuration with every zero field set to its default.
func (c Config) WithDefaults() Config {
	if c.Platform == (Platform{}) {
		c.Platform = Host()
	}
	if c.RetryTimeout == 0 {
		c.RetryTimeout = defaultRetryTimeout
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
	if c.RetryTimeout < 0 {
		errs = append(errs, fmt.Errorf("release cache: retry timeout %v is negative", c.RetryTimeout))
	}
	return errors.Join(errs...)
}

// Cache is a folder of verified releases.
type Cache struct {
	cfg     Config
	folder  shareddir.Dir
	index   index
	seen    SeenStore
	flights flights
}

// OpenCache opens a cache and removes what ended processes left in its folder. It waits for the folder's lock until ctx
// ends, at most a minute; the error names the lock file. Use, Collect and the fetching methods do the same.
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
