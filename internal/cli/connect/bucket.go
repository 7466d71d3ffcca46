package connect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/daemon/signalbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/flock"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
)

// Bucket opens the bucket of weir.yaml in --config-dir. Without --config-dir it uses the
// file that "weir up" wrote to the data folder, if there is one.
func (cli *CLI) Bucket(ctx context.Context) (release.Bucket, config.Service, error) {
	dir, keys := cli.ConfigDir(), signalbucket.Keys{}
	if cli.Configs == "" {
		data, err := cli.DataDir()
		if err != nil {
			return nil, config.Service{}, err
		}
		if _, err := os.Stat(daemon.UpConfigs(data)); err == nil {
			if _, held, err := flock.Holder(filepath.Join(data, "up.lock")); err == nil && !held {
				return nil, config.Service{}, nothingRuns(data)
			}
			if keys, err = signalbucket.LocalKeys(data); err != nil {
				return nil, config.Service{}, err
			}
			dir = daemon.UpConfigs(data)
		} else if !errors.Is(err, os.ErrNotExist) {
			return nil, config.Service{}, err
		}
	}
	service, err := config.LoadService(dir)
	if err != nil {
		return nil, service, usage.New(err)
	}
	bucket, err := signalbucket.Open(ctx, service, keys)
	return bucket, service, err
}

func nothingRuns(dir string) error {
	return fmt.Errorf("nothing runs in data folder %s: start it with \"weir up\", or name another with --data or --nats", dir)
}

// Releases returns a function that fetches verified releases from the bucket of weir.yaml to the cache of this machine. Progress
// receives the bytes of each download; nil: no receiver.
func (cli *CLI) Releases(ctx context.Context, progress func(ref release.Ref, done, total int64)) (func(context.Context, release.Ref) (release.Installed, error), error) {
	bucket, service, err := cli.Bucket(ctx)
	if err != nil {
		return nil, err
	}
	trust, err := signalbucket.TrustOf(service)
	if err != nil {
		return nil, err
	}
	dir, err := cli.DataDir()
	if err != nil {
		return nil, err
	}
	cache, err := release.OpenCache(ctx, release.Config{Dir: filepath.Join(dir, "releases"), Trust: trust, Progress: progress})
	return func(ctx context.Context, ref release.Ref) (release.Installed, error) {
		return signalbucket.Fetch(ctx, cache, bucket, service, ref)
	}, err
}
