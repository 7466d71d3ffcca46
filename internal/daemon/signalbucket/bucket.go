// Package signalbucket opens the service file's bucket of signal releases with its access keys, and reads the trusted
// signers.
//
// Commands and bootstrap call [Open], and get the same bucket, keys and trust. [Fetch] downloads and verifies one
// release. [MakeLocalKeys] makes the access keys of the bucket of "weir up". All functions may be called
// concurrently.
package signalbucket

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/bootstrap/release/keyfile"
	"github.com/weirkeeper/weirkeeper/bootstrap/release/s3store"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/platform/awssdk"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/platform/wholefile"
)

// TrustOf returns the trusted signers of releases.
func TrustOf(s config.Service) (release.Trust, error) {
	trust := release.Trust{Required: s.Releases.SignatureRequired()}
	for _, text := range s.Releases.TrustedKeys {
		key, err := keyfile.ParsePublic(text)
		if err != nil {
			return release.Trust{}, err
		}
		trust.Keys = append(trust.Keys, key)
	}
	return trust, nil
}

// Open opens the bucket of the service file with the given keys. If they are zero, each request reads the keys again:
// from access_key_file, or by the AWS SDK's usual chain. If access_key_file is unreadable, the bucket counts as
// unavailable, so the cache is used.
func Open(ctx context.Context, service config.Service, keys Keys) (release.Bucket, error) {
	if service.AWS.SignalsBucket == "" {
		return nil, usage.New(ErrNoBucket)
	}
	source := awssdk.Fixed(keys.Access, keys.Secret)
	if keys == (Keys{}) {
		source = awssdk.KeysOf(service.AWS.AccessKeyFile)
	}
	return s3store.Open(ctx, s3store.Config{
		Bucket: service.AWS.SignalsBucket, Prefix: service.AWS.SignalsPrefix, Region: service.AWS.Region,
		Endpoint: service.AWS.Endpoint("s3"), PathStyle: service.AWS.PathStyle, Keys: source,
	})
}

// ErrNoBucket: the service file lacks the bucket.
var ErrNoBucket = errors.New("weir.yaml: aws.signals_bucket is missing: name the bucket of the signal releases")

// Fetch fetches a release in the layout of the service file.
func Fetch(ctx context.Context, cache *release.Cache, bucket release.Bucket, service config.Service, ref release.Ref) (release.Installed, error) {
	if service.Releases.Layout == config.LayoutClusterman {
		return cache.FetchClusterman(ctx, bucket, service.Releases.Codename, ref)
	}
	return cache.Fetch(ctx, bucket, ref)
}

// Forget removes the first-seen record of a release in the layout of the service file.
func Forget(ctx context.Context, cache *release.Cache, bucket release.Bucket, service config.Service, ref release.Ref) error {
	if service.Releases.Layout == config.LayoutClusterman {
		return cache.ForgetClusterman(ctx, bucket, service.Releases.Codename, ref)
	}
	return cache.Forget(ctx, bucket, ref)
}

// Keys are the credentials of the bucket of "weir up".
type Keys struct {
	Access string `json:"access"`
	Secret string `json:"secret"`
}

func keysFile(data string) string { return filepath.Join(data, "s3", "keys.json") }

// MakeLocalKeys returns the keys of the data folder's bucket, or new ones, which Save stores. It moves a damaged file
// aside and returns its new path. New keys serve as well, because the keys are only for this user and only valid
// while the bucket runs.
func MakeLocalKeys(data string) (k Keys, aside string, err error) {
	k, err = LocalKeys(data)
	if errors.Is(err, errDamaged) {
		if aside, err = wholefile.SetAside(keysFile(data), time.Now()); err == nil {
			err = fs.ErrNotExist
		}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return k, aside, err
	}
	return Keys{Access: "weir-" + rand.Text()[:8], Secret: rand.Text()}, aside, nil
}

// Save stores the keys of the data folder's bucket for LocalKeys.
func (k Keys) Save(data string) error {
	encoded, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return daemon.WriteFile(keysFile(data), encoded)
}

// errDamaged: a file of "weir up" has other content than "weir up" writes.
var errDamaged = errors.New("the file is damaged; restart \"weir up\" to replace it")

// maxKeys bounds the file of the keys, in bytes.
const maxKeys = 4096

// LocalKeys returns the keys of the bucket of "weir up" in the data folder.
func LocalKeys(data string) (Keys, error) {
	var k Keys
	encoded, err := os.ReadFile(keysFile(data))
	if err != nil {
		return k, err
	}
	if err := strictjson.Within(encoded, maxKeys, &k); err != nil {
		return Keys{}, fmt.Errorf("read %s: %w: %w", keysFile(data), errDamaged, err)
	}
	if k.Access == "" || k.Secret == "" {
		return Keys{}, fmt.Errorf("read %s: %w: a key is empty", keysFile(data), errDamaged)
	}
	return k, nil
}

// Env returns the keys as variables of the AWS SDK's usual chain.
func (k Keys) Env() []string {
	return []string{"AWS_ACCESS_KEY_ID=" + k.Access, "AWS_SECRET_ACCESS_KEY=" + k.Secret}
}
