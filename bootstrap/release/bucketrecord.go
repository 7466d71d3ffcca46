package release

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// bucketRecord is the bucket's content for a release. Its JSON form is a file of the cache's index. It stores the
// signed bytes unchanged, so that the signature can be verified again.
type bucketRecord struct {
	manifest  Manifest
	Raw       []byte  `json:"manifest"`            // manifest.json, byte for byte; the signature covers it
	Signature []byte  `json:"signature,omitempty"` // manifest.json.minisig; nil: not signed
	Yanked    *Yanked `json:"yanked,omitempty"`    // nil: not yanked
}

// readBucketRecord reads the record from the bucket. It returns the errors of readManifest.
func readBucketRecord(ctx context.Context, b Bucket, ref Ref, platform Platform, wait retryTimeout) (w bucketRecord, err error) {
	if w.Raw, w.manifest, err = readManifest(ctx, b, ref, platform, wait); err != nil {
		return bucketRecord{}, err
	}
	if w.Yanked, err = readYanked(ctx, b, ref, platform, wait); err != nil {
		return bucketRecord{}, err
	}
	w.Signature, err = readSignature(ctx, b, ref, platform, wait)
	return w, err
}

// readManifest returns a manifest and its bytes. It returns ErrNotFound if the release is not published for the
// platform, and ErrCorrupt if the manifest is damaged or belongs to another release.
func readManifest(ctx context.Context, b Bucket, ref Ref, platform Platform, wait retryTimeout) ([]byte, Manifest, error) {
	if err := errors.Join(ref.Validate(), platform.Validate()); err != nil {
		return nil, Manifest{}, err
	}
	k := key(ref, platform, manifestName)
	raw, err := read(ctx, b, k, maxManifest, wait)
	if errors.Is(err, ErrNotFound) {
		err = withAvailable(ctx, b, ref, platform, err)
	}
	if err != nil {
		return nil, Manifest{}, err
	}
	m, err := decodeManifestOf(raw, ref, platform)
	if err != nil {
		return nil, Manifest{}, fmt.Errorf("read: %w (%s)", err, b.URL(k))
	}
	return raw, m, nil
}

// readSignature returns a signature object, or nil if it is missing. An unreadable one is returned as an invalid
// signature.
func readSignature(ctx context.Context, b Bucket, ref Ref, platform Platform, wait retryTimeout) ([]byte, error) {
	data, err := read(ctx, b, key(ref, platform, signatureName), maxSignature, wait)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, nil
	case errors.Is(err, ErrCorrupt):
		return []byte("unreadable"), nil
	}
	return data, err
}

// decodeManifestOf decodes the manifest of ref for platform, or returns ErrCorrupt.
func decodeManifestOf(raw []byte, ref Ref, platform Platform) (Manifest, error) {
	m, err := decodeManifest(raw)
	if err == nil && (m.Ref != ref || m.Platform != platform) {
		err = fmt.Errorf("%w: it is the manifest of %s for %s", ErrCorrupt, m.Ref, m.Platform)
	}
	return m, err
}

// seen returns the first-seen record that the bucket's record implies; a zero Seen for a zero record.
func (w bucketRecord) seen() Seen {
	if w.Raw == nil {
		return Seen{}
	}
	return Seen{Digest: w.manifest.Object.SHA256, At: time.Now().UTC(), Yanked: w.Yanked}
}

// admit returns why the release must not run.
func (w bucketRecord) admit(t Trust) error {
	if w.Yanked != nil {
		return w.Yanked.err()
	}
	return t.admit(w.manifest, w.Raw, w.Signature)
}
