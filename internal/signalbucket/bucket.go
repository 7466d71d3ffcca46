// Package signalbucket opens the bucket of signal releases that the service file
// names, with its access keys, and reads which signers of releases it trusts.
package signalbucket

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/bootstrap/release/keyfile"
	"github.com/weirkeeper/weirkeeper/bootstrap/release/s3store"
	"github.com/weirkeeper/weirkeeper/internal/command"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
)

// TrustOf returns the signers of releases that the service file trusts.
func TrustOf(s config.Service) (release.Trust, error) {
	trust := release.Trust{Required: s.Releases.RequireSignature}
	for _, text := range s.Releases.TrustedKeys {
		key, err := keyfile.ParsePublic(text)
		if err != nil {
			return release.Trust{}, err
		}
		trust.Keys = append(trust.Keys, key)
	}
	return trust, nil
}

// Open opens the bucket of the service file; with zero keys, by its
// access_key_file or the AWS SDK's usual chain.
func Open(ctx context.Context, service config.Service, keys Keys) (release.Bucket, error) {
	if service.AWS.SignalsBucket == "" {
		return nil, command.Usage(ErrNoBucket)
	}
	var errKeys error
	if keys == (Keys{}) {
		keys, errKeys = AccessKeys(service)
	}
	bucket, err := s3store.Open(ctx, s3store.Config{
		Bucket: service.AWS.SignalsBucket, Prefix: service.AWS.SignalsPrefix, Region: service.AWS.Region,
		Endpoint: service.AWS.Endpoint("s3"), PathStyle: service.AWS.PathStyle,
		AccessKey: keys.Access, SecretKey: keys.Secret,
	})
	if err == nil && errKeys != nil {
		return lockedBucket{bucket, errKeys}, nil
	}
	return bucket, err
}

// ErrNoBucket is a mistake in the service file.
var ErrNoBucket = errors.New("weir.yaml: aws.signals_bucket is missing: which bucket holds the signal releases?")

// lockedBucket is a bucket whose keys cannot be read: as good as away, so that
// what is in the cache is used.
type lockedBucket struct {
	release.Bucket
	err error
}

func (b lockedBucket) away() error { return fmt.Errorf("%w: %w", release.ErrUnavailable, b.err) }

// Get implements release.Bucket.
func (b lockedBucket) Get(context.Context, string, int64) (io.ReadCloser, error) {
	return nil, b.away()
}

// Put implements release.Bucket.
func (b lockedBucket) Put(context.Context, string, io.ReadSeeker, int64) error { return b.away() }

// Stat implements release.Bucket.
func (b lockedBucket) Stat(context.Context, string) (release.Stat, error) {
	return release.Stat{}, b.away()
}

// List implements release.Bucket.
func (b lockedBucket) List(context.Context, string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) { yield("", b.away()) }
}

// AccessKeys are those of the service file's access_key_file; none without one.
// With AWS_PROFILE or AWS_WEB_IDENTITY_TOKEN_FILE set, the SDK finds its own.
func AccessKeys(service config.Service) (Keys, error) {
	if service.AWS.AccessKeyFile == "" || os.Getenv("AWS_PROFILE") != "" || os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE") != "" {
		return Keys{}, nil
	}
	return readAccessKeys(service.AWS.AccessKeyFile)
}

// readAccessKeys reads the keys of a file as boto users have it.
func readAccessKeys(file string) (Keys, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return Keys{}, fmt.Errorf("aws.access_key_file: %w", err)
	}
	var keys struct {
		Access string `json:"accessKeyId"`
		Secret string `json:"secretAccessKey"`
	}
	if err := json.Unmarshal(data, &keys); err != nil || keys.Access == "" || keys.Secret == "" {
		return Keys{}, fmt.Errorf("aws.access_key_file %s: want a JSON object of accessKeyId and secretAccessKey", file)
	}
	return Keys{Access: keys.Access, Secret: keys.Secret}, nil
}

// Fetch fetches by the layout of the service file.
func Fetch(ctx context.Context, cache *release.Cache, bucket release.Bucket, service config.Service, ref release.Ref) (release.Installed, error) {
	if service.Releases.Layout == config.LayoutClusterman {
		return cache.FetchClusterman(ctx, bucket, service.Releases.Codename, ref)
	}
	return cache.Fetch(ctx, bucket, ref)
}

// Keys are the credentials of the bucket of "weir up".
type Keys struct {
	Access string `json:"access"`
	Secret string `json:"secret"`
}

func keysFile(data string) string { return filepath.Join(data, "s3", "keys.json") }

// MakeLocalKeys returns the keys of the data folder's bucket, new ones if there
// are none.
func MakeLocalKeys(data string) (Keys, error) {
	k, err := LocalKeys(data)
	if !errors.Is(err, fs.ErrNotExist) {
		return k, err
	}
	k = Keys{Access: "weir-" + rand.Text()[:8], Secret: rand.Text()}
	encoded, err := json.Marshal(k)
	if err != nil {
		return k, err
	}
	return k, daemon.WriteFile(keysFile(data), encoded)
}

// LocalKeys returns the keys of the bucket that "weir up" keeps in the data folder.
func LocalKeys(data string) (Keys, error) {
	var k Keys
	encoded, err := os.ReadFile(keysFile(data))
	if err != nil {
		return k, err
	}
	if err := json.Unmarshal(encoded, &k); err != nil {
		return k, fmt.Errorf("read %s: %w", keysFile(data), err)
	}
	return k, nil
}

// Env is how the AWS SDK's usual chain finds the keys.
func (k Keys) Env() []string {
	return []string{"AWS_ACCESS_KEY_ID=" + k.Access, "AWS_SECRET_ACCESS_KEY=" + k.Secret}
}
