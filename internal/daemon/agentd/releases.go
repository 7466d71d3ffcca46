package agentd

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/daemon/signalbucket"
)

// Releases fetches the releases of app instances to a machine. Each fetch reads weir.yaml again, for the bucket, its
// keys and the trusted signers. It implements agent.Releases.
type Releases struct {
	Configs string // folder of weir.yaml
	Data    string // data folder; the cache is below it
	Owner   string // of the record that protects releases from removal; one for each agent
	Log     *slog.Logger

	recording sync.Mutex // so that a record is not replaced by an earlier one
}

// Fetch implements agent.Releases.
func (r *Releases) Fetch(ctx context.Context, ref release.Ref, inUse func() []release.Ref) (string, error) {
	service, err := config.LoadService(r.Configs)
	if err != nil {
		return "", err
	}
	trust, err := signalbucket.TrustOf(service)
	if err != nil {
		return "", err
	}
	var keys signalbucket.Keys
	if r.Configs == daemon.UpConfigs(r.Data) { // of "weir up"
		if keys, err = signalbucket.LocalKeys(r.Data); err != nil {
			return "", err
		}
	}
	bucket, err := signalbucket.Open(ctx, service, keys)
	if err != nil {
		return "", err
	}
	cache, err := release.OpenCache(ctx, release.Config{Dir: filepath.Join(r.Data, "releases"), Trust: trust})
	if err != nil {
		return "", err
	}
	if err := r.record(ctx, cache, inUse); err != nil {
		return "", err
	}
	in, err := signalbucket.Fetch(ctx, cache, bucket, service, ref)
	if err != nil {
		return "", err
	}
	if err := in.Verify(ctx); err != nil {
		return "", err
	}
	if in.Pinned {
		r.Log.Warn("unsigned tarball accepted on first use", "release", ref.String(), "sha256", in.Digest.String())
	}
	if removed, err := cache.Collect(ctx, nil, time.Now(), service.Releases.Keep); err != nil {
		r.Log.Warn("release cache cleanup failed", "err", err)
	} else if len(removed.Releases) > 0 {
		r.Log.Info("unused releases removed from the cache", "releases", len(removed.Releases), "bytes", removed.Bytes)
	}
	return in.Dir, nil
}

// record records the releases in use, which nothing removes from the cache.
func (r *Releases) record(ctx context.Context, cache *release.Cache, inUse func() []release.Ref) error {
	r.recording.Lock()
	defer r.recording.Unlock()
	if err := cache.Use(ctx, r.Owner, inUse()); err != nil {
		return fmt.Errorf("protect the releases in use: %w", err)
	}
	return nil
}
