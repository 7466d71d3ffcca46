package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/progress"
	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/bootstrap/release/s3store"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/flock"
)

// releases fetches what a bootstrap runs, from where its files say.
type releases struct {
	dir      string
	owner    string // of the plan that keeps releases from being collected
	log      *slog.Logger
	progress func(ref release.Ref, done, total int64)

	mu     sync.Mutex
	wanted pooled
	cache  *release.Cache
	bucket release.Bucket
}

// openReleases opens the cache of a data folder and the bucket that fills it.
func openReleases(ctx context.Context, wanted pooled, dir string, log *slog.Logger) (*releases, error) {
	r := &releases{dir: dir, owner: wanted.plan.Cluster + "." + wanted.plan.Pool, log: log, progress: logProgress(log)}
	return r, r.follow(ctx, wanted)
}

// follow opens bucket and cache anew: keys, trust or the bucket may be others. If
// that does not go well, those of before stay.
func (r *releases) follow(ctx context.Context, wanted pooled) error {
	trust, err := trustOf(wanted.service)
	if err != nil {
		return err
	}
	cache, err := release.OpenCache(release.Config{Dir: r.dir, Trust: trust, Progress: r.progress})
	if err != nil {
		return err
	}
	bucket, err := openBucket(ctx, wanted.service, bucketKeys{})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// What ran until now may have to run for a while.
	if err := cache.Use(r.owner, append(refsOf(wanted.plan), refsOf(r.wanted.plan)...)); err != nil {
		return err
	}
	r.wanted, r.cache, r.bucket = wanted, cache, bucket
	return nil
}

// refsOf returns the releases of a plan, its shadows' too.
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
func (r *releases) Fetch(ctx context.Context, ref release.Ref) (release.Installed, error) {
	r.mu.Lock()
	cache, bucket, files := r.cache, r.bucket, r.wanted.service.Releases
	r.mu.Unlock()
	if files.Layout != config.LayoutClusterman {
		return cache.Fetch(ctx, bucket, ref)
	}
	in, err := cache.FetchClusterman(ctx, bucket, files.Codename, ref)
	if in.Pinned {
		r.log.Warn("tarball is taken on trust: nobody vouches for what was first seen of this version",
			"release", ref.String(), "sha256", in.Digest.String())
	}
	return in, err
}

// collectEvery is how often the cache is rid of what no plan names.
const collectEvery = time.Hour

// collect removes from the cache what no plan names, until ctx ends.
func (r *releases) collect(ctx context.Context) error {
	due := time.NewTicker(collectEvery)
	defer due.Stop()
	for {
		r.mu.Lock()
		cache, keep := r.cache, r.wanted.service.Releases.Keep
		r.mu.Unlock()
		got, err := cache.Collect(ctx, nil, time.Now(), keep)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			r.log.Warn("release cache is not collected", "folder", r.dir, "err", err)
		case len(got.Releases) > 0:
			r.log.Info("releases that no plan names are removed from the cache", "releases", len(got.Releases), "bytes", got.Bytes)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-due.C:
		}
	}
}

// trustOf returns whose releases the service file lets run.
func trustOf(s config.Service) (release.Trust, error) {
	trust := release.Trust{Required: s.Releases.RequireSignature}
	for _, text := range s.Releases.TrustedKeys {
		key, err := release.ParsePublicKey(text)
		if err != nil {
			return release.Trust{}, err
		}
		trust.Keys = append(trust.Keys, key)
	}
	return trust, nil
}

// openBucket opens the bucket of the service file; with zero keys, by its
// access_key_file or the AWS SDK's usual chain.
func openBucket(ctx context.Context, service config.Service, keys bucketKeys) (release.Bucket, error) {
	if service.AWS.SignalsBucket == "" {
		return nil, &usageError{errors.New("weir.yaml: aws.signals_bucket is missing: which bucket holds the signal releases?")}
	}
	if file := service.AWS.AccessKeyFile; file != "" && keys == (bucketKeys{}) {
		var err error
		if keys, err = readAccessKeys(file); err != nil {
			return nil, err
		}
	}
	return s3store.Open(ctx, s3store.Config{
		Bucket: service.AWS.SignalsBucket, Prefix: service.AWS.SignalsPrefix, Region: service.AWS.Region,
		Endpoint: service.AWS.EndpointURL, PathStyle: service.AWS.PathStyle,
		AccessKey: keys.Access, SecretKey: keys.Secret,
	})
}

// readAccessKeys reads the keys of a file as boto users have it.
func readAccessKeys(file string) (bucketKeys, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return bucketKeys{}, fmt.Errorf("aws.access_key_file: %w", err)
	}
	var keys struct {
		Access string `json:"accessKeyId"`
		Secret string `json:"secretAccessKey"`
	}
	if err := json.Unmarshal(data, &keys); err != nil || keys.Access == "" || keys.Secret == "" {
		return bucketKeys{}, fmt.Errorf("aws.access_key_file %s: want a JSON object of accessKeyId and secretAccessKey", file)
	}
	return bucketKeys{Access: keys.Access, Secret: keys.Secret}, nil
}

// logProgress tells of downloads in log lines: when one begins, when it is
// through, and each quarter of a larger one.
func logProgress(log *slog.Logger) func(ref release.Ref, done, total int64) {
	const worthTelling = 4 << 20 // bytes; a smaller one is through before anybody asks
	var mu sync.Mutex
	told := map[release.Ref]int64{} // quarters
	return func(ref release.Ref, done, total int64) {
		if total < worthTelling {
			return
		}
		quarter := 4 * done / total
		mu.Lock()
		before, begun := told[ref]
		told[ref] = quarter
		mu.Unlock()
		if !begun || quarter > before {
			log.Info("release is being fetched", "release", ref.String(), "bytes", done, "of", total)
		}
	}
}

// bucket opens the bucket of the service file: that of --config-dir or, if "weir
// up" has written one to the data folder, that one.
func (cli *cli) bucket(ctx context.Context) (release.Bucket, config.Service, error) {
	dir, keys := cli.configs(), bucketKeys{}
	if cli.configDir == "" {
		data, err := cli.dataDir()
		if err != nil {
			return nil, config.Service{}, err
		}
		if _, err := os.Stat(upConfigs(data)); err == nil {
			if _, held, err := flock.Holder(filepath.Join(data, "up.lock")); err == nil && !held {
				return nil, config.Service{}, nothingRuns(data)
			}
			if keys, err = readBucketKeys(data); err != nil {
				return nil, config.Service{}, err
			}
			dir = upConfigs(data)
		} else if !errors.Is(err, os.ErrNotExist) {
			return nil, config.Service{}, err
		}
	}
	service, err := config.LoadService(dir)
	if err != nil {
		return nil, service, &usageError{err}
	}
	bucket, err := openBucket(ctx, service, keys)
	return bucket, service, err
}

// upConfigs is where "weir up" writes its configuration.
func upConfigs(data string) string { return filepath.Join(data, "config") }

// bars shows downloads on a terminal, one line for each, and nothing on anything
// else.
type bars struct {
	writer progress.Writer // nil: not a terminal
	done   chan struct{}

	mu       sync.Mutex
	trackers map[release.Ref]*progress.Tracker
}

func newBars(w io.Writer) *bars {
	b := &bars{trackers: map[release.Ref]*progress.Tracker{}, done: make(chan struct{})}
	f, ok := w.(*os.File)
	if !ok {
		return b
	}
	if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err != nil {
		return b
	}
	b.writer = progress.NewWriter()
	b.writer.SetOutputWriter(f)
	b.writer.SetUpdateFrequency(100 * time.Millisecond)
	go func() {
		defer close(b.done)
		b.writer.Render()
	}()
	return b
}

// tell shows how far a download is. It may be called concurrently.
func (b *bars) tell(ref release.Ref, done, total int64) {
	if b.writer == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t, ok := b.trackers[ref]
	if !ok {
		t = &progress.Tracker{Message: ref.String(), Total: total, Units: progress.UnitsBytes}
		b.trackers[ref] = t
		b.writer.AppendTracker(t)
	}
	t.SetValue(done)
}

// close leaves the lines as they are.
func (b *bars) close() {
	if b.writer == nil {
		return
	}
	b.writer.Stop()
	<-b.done
}

func bytesText(n int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= unit.size {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(unit.size), unit.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

// timeText is a time for people, in their zone.
func timeText(t time.Time) string { return t.Local().Format(time.DateTime) }
