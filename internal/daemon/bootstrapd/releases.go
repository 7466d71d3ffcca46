package bootstrapd

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon/signalbucket"
)

// releases fetches the releases of a bootstrap.
type releases struct {
	dir      string
	owner    string // of the plan that protects releases from removal
	log      *slog.Logger
	progress progress
	yanks    yanks
	fetches  fetches
	shared   release.SeenStore // shared by the cluster's hosts; nil: this host only

	mu      sync.Mutex
	desired Desired
	cache   *release.Cache
	bucket  release.Bucket
}

// openReleases opens the cache of a data folder. Downloads are reported to progress.
func openReleases(ctx context.Context, desired Desired, dir string, shared release.SeenStore, log *slog.Logger, progress progress) (*releases, error) {
	r := &releases{dir: dir, owner: desired.Plan.Cluster + "." + desired.Plan.Pool, log: log, progress: progress, shared: shared}
	return r, r.follow(ctx, desired, nil)
}

// progress receives the progress of a download, in bytes.
type progress func(ref release.Ref, done, total int64)

// follow applies changed files: keys, trust or bucket. After an error the previous settings stay. Releases in running
// stay in the cache.
func (r *releases) follow(ctx context.Context, desired Desired, running []release.Ref) error {
	trust, err := signalbucket.TrustOf(desired.service)
	if err != nil {
		return err
	}
	cache, err := release.OpenCache(ctx, release.Config{Dir: r.dir, Trust: trust, Shared: r.shared, Progress: r.progress})
	if err != nil {
		return err
	}
	if err := cache.Use(ctx, r.owner, append(refsOf(desired.Plan), running...)); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.desired, r.cache, r.bucket = desired, cache, nil
	r.fetches.pin(refsOf(desired.Plan))
	return nil
}

// open returns the cache and the bucket. The first call opens the bucket.
func (r *releases) open(ctx context.Context) (*release.Cache, release.Bucket, config.Service, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bucket == nil {
		bucket, err := signalbucket.Open(ctx, r.desired.service, signalbucket.Keys{})
		if err != nil {
			return nil, nil, config.Service{}, err
		}
		r.bucket = bucket
	}
	return r.cache, r.bucket, r.desired.service, nil
}

// refsOf returns the releases of a plan, including shadows.
func refsOf(p bootstrap.Plan) (refs []release.Ref) {
	for _, s := range p.Signals {
		if s.Shipped() {
			continue
		}
		refs = append(refs, s.Ref())
		if s.Shadow != nil {
			refs = append(refs, release.Ref{Namespace: s.Namespace, Name: s.Name, Version: s.Shadow.Version})
		}
	}
	return refs
}

// Fetch implements bootstrap.Fetcher.
func (r *releases) Fetch(ctx context.Context, ref release.Ref) (in release.Installed, err error) {
	defer func() { r.fetches.countFetch(ctx, ref, err) }()
	cache, bucket, service, err := r.open(ctx)
	if err != nil {
		return release.Installed{}, fmt.Errorf("fetch %s: %w", ref, err)
	}
	in, err = signalbucket.Fetch(ctx, cache, bucket, service, ref)
	if in.SharedErr != nil {
		r.log.Warn("shared first-seen record unavailable, using this host's record", "release", ref.String(), "err", in.SharedErr)
	}
	if in.Pinned {
		r.log.Warn("unsigned tarball accepted on first use",
			"release", ref.String(), "sha256", in.Digest.String())
	}
	return in, err
}

// collectEvery is the interval of cleaning the cache.
const collectEvery = time.Hour

// collect removes unused releases from the cache, until ctx ends.
func (r *releases) collect(ctx context.Context, running func() []release.Ref) error {
	due := time.NewTicker(collectEvery)
	defer due.Stop()
	for {
		r.collectOnce(ctx, running())
		select {
		case <-ctx.Done():
			return nil
		case <-due.C:
		}
	}
}

func (r *releases) collectOnce(ctx context.Context, running []release.Ref) {
	r.mu.Lock()
	cache, desired := r.cache, r.desired
	r.mu.Unlock()
	err := cache.Use(ctx, r.owner, append(refsOf(desired.Plan), running...))
	var got release.Collected
	if err == nil {
		got, err = cache.Collect(ctx, nil, time.Now(), desired.service.Releases.Keep)
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		r.log.Warn("release cache cleanup failed", "folder", r.dir, "err", err)
	case len(got.Releases) > 0:
		r.log.Info("unused releases removed from the cache", "releases", len(got.Releases), "bytes", got.Bytes)
	}
}

// logProgress returns a progress function that logs each quarter of a large download.
func logProgress(log *slog.Logger) progress {
	const minLoggedSize = 4 << 20 // bytes; smaller downloads are quick
	var mu sync.Mutex
	lastQuarter := map[release.Ref]int64{} // quarters
	return func(ref release.Ref, done, total int64) {
		if total < minLoggedSize {
			return
		}
		quarter := 4 * done / total
		mu.Lock()
		before, begun := lastQuarter[ref]
		lastQuarter[ref] = quarter
		mu.Unlock()
		if !begun || quarter > before {
			log.Info("fetching release", "release", ref.String(), "bytes", done, "of", total)
		}
	}
}
