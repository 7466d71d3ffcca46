package release

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap/release/shareddir"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
)

// maxRecord bounds a file of the index in bytes: a manifest in base64 with additions, or the file list of a tarball.
const maxRecord = 64 << 20

// decodeRecord decodes an index file of a release, or returns ErrCorrupt.
func decodeRecord(data []byte, ref Ref, platform Platform) (w bucketRecord, err error) {
	if err := strictjson.Within(data, maxRecord, &w); err != nil {
		return bucketRecord{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if w.manifest, err = decodeManifestOf(w.Raw, ref, platform); err != nil {
		return bucketRecord{}, err
	}
	return w, nil
}

// indexEntry is a file of the index with its intended content.
type indexEntry struct {
	path string
	data []byte
}

// index is the cache's store of what the bucket returned for each release, and of what each owner runs.
type index struct {
	folder   shareddir.Dir
	platform Platform
}

func (x index) dir() string { return filepath.Join(string(x.folder), indexName) }

func (x index) path(b Bucket, ref Ref) string {
	return filepath.Join(x.sourcePath(b), filepath.FromSlash(ref.folder()), x.platform.String()+".json")
}

// sourcePath returns the folder for all releases from this bucket. A digest of the URL identifies a bucket.
func (x index) sourcePath(b Bucket) string {
	return filepath.Join(x.dir(), sourceOf(b))
}

// lookup returns the stored record of a release from this bucket.
func (x index) lookup(b Bucket, ref Ref) (bucketRecord, error) {
	path := x.path(b, ref)
	data, err := readIndex(path)
	if errors.Is(err, os.ErrNotExist) {
		return bucketRecord{}, fmt.Errorf("not in the cache %s", x.folder)
	}
	var w bucketRecord
	if err == nil {
		w, err = decodeRecord(data, ref, x.platform)
	}
	if err != nil {
		return bucketRecord{}, fmt.Errorf("cache index %s: %w", path, err)
	}
	return w, nil
}

func readIndex(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	if err == nil && len(data) > maxRecord {
		err = fmt.Errorf("%w: it is larger than %d bytes", ErrCorrupt, maxRecord)
	}
	return data, err
}

// remember writes the entry of a release, for use while the bucket is unavailable. It returns errGone if the files are
// missing.
func (x index) remember(ctx context.Context, in Installed, n indexEntry) error {
	return x.folder.Locked(ctx, func() error {
		if _, err := os.Stat(in.Dir); err != nil {
			return fmt.Errorf("%s: %w", in.Dir, errGone)
		}
		return x.write(n)
	})
}

// write writes an entry. If the index already has that content, it only updates the file's time. Call it from Locked.
func (x index) write(n indexEntry) error {
	if before, err := readIndex(n.path); err == nil && bytes.Equal(before, n.data) {
		now := time.Now()
		return os.Chtimes(n.path, now, now)
	}
	if err := os.MkdirAll(filepath.Dir(n.path), 0o700); err != nil {
		return err
	}
	return x.folder.Write(n.path, n.data)
}
