package localworld

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon/signalbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/diskspace"
	"github.com/weirkeeper/weirkeeper/internal/platform/s3gateway"
)

// bucketTimeout is how long the start of "weir up" waits for its bucket.
const bucketTimeout = 10 * time.Second

func (u *up) bucketFolder() string { return filepath.Join(u.data, "s3") }

// startBucket starts the S3 bucket and returns its endpoint. If the disk is full, it returns at once and the start is
// retried.
func (u *up) startBucket(ctx context.Context) (endpoint string, err error) {
	keys, aside, err := signalbucket.MakeLocalKeys(u.data)
	if err != nil {
		return "", err
	}
	u.keys = keys
	if aside != "" {
		u.warn("keys of the bucket", "the file was damaged and moved to "+aside+"; the bucket has new keys")
	}
	if u.options.NoBucket {
		u.print("bucket", "off, by --no-bucket")
		return "http://127.0.0.1:1", keys.Save(u.data)
	}
	addr, err := freeAddress("bucket", u.options.BucketAddr)
	if err != nil {
		return "", err
	}
	ready, failed := make(chan struct{}), make(chan error, 1)
	var once sync.Once
	u.back.Run("bucket", u.keep("bucket", func(ctx context.Context) error {
		err := keys.Save(u.data)
		if err == nil {
			err = s3gateway.Run(ctx, s3gateway.Config{
				Dir: u.bucketFolder(), Addr: addr, AccessKey: keys.Access, SecretKey: keys.Secret,
				Buckets: []string{upBucket}, Log: u.log, Ready: func(string) { once.Do(func() { close(ready) }) },
			})
		}
		select {
		case failed <- err:
		default:
		}
		return err
	}))
	limit := time.NewTimer(bucketTimeout)
	defer limit.Stop()
	select {
	case <-ready:
		u.print("bucket", "s3://%s at http://%s", upBucket, addr)
	case err := <-failed:
		if !u.full(u.bucketFolder()) {
			return "", err
		}
	case <-limit.C:
		u.warn("bucket", "not ready yet")
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	return "http://" + addr, nil
}

// full reports whether the disk of a path is full.
func (u *up) full(path string) bool {
	_, full := errors.AsType[*api.FullDisk](diskspace.Check(path))
	return full
}

// startRelease publishes the signal from the binary's folder and returns its version. While the bucket's disk is
// full, it retries; the cache may have the release.
func (u *up) startRelease(ctx context.Context, endpoint string) (version string, err error) {
	file, err := shippedSignalFile()
	if err != nil {
		return "", err
	}
	if version, err = versionOfFile(file); err != nil || u.options.NoBucket {
		return version, err
	}
	ref := release.Ref{Namespace: upNamespace, Name: upSignal, Version: version}
	if !u.full(u.bucketFolder()) {
		err := u.publish(ctx, endpoint, ref, file)
		if errors.Is(err, release.ErrCorrupt) { // it costs itself: all else starts
			stored := filepath.Join(u.bucketFolder(), "buckets", upBucket, ref.Namespace, ref.Name, ref.Version)
			u.warn("release", fmt.Sprintf("%v; the bucket's copy is damaged: remove the folder %s, and the next start publishes it again", err, stored))
			return version, nil
		}
		return version, err
	}
	u.back.Run("release", u.keep("release", func(ctx context.Context) error {
		if err := diskspace.Check(u.bucketFolder()); err != nil {
			return err
		}
		if err := u.publish(ctx, endpoint, ref, file); err != nil {
			return err
		}
		<-ctx.Done() // a part must not end earlier
		return nil
	}))
	return version, nil
}

// publish publishes a signal like "weir release publish".
func (u *up) publish(ctx context.Context, endpoint string, ref release.Ref, file string) error {
	bucket, err := signalbucket.Open(ctx, config.Service{AWS: config.AWS{
		Region: "us-east-1", EndpointURL: endpoint, PathStyle: true, SignalsBucket: upBucket,
	}}, u.keys)
	if err != nil {
		return err
	}
	if _, err = release.Publish(ctx, bucket, ref, release.Host(), release.Source{Path: file, Created: time.Now()}); err != nil {
		return err
	}
	u.print("release", "%s", ref)
	return nil
}
