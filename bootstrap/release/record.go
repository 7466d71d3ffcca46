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
	"github.com/weirkeeper/weirkeeper/internal/strictjson"
)

// maxRecord bounds a file of the index: a manifest in base64, and what is beside
// it; or the list of a tarball's files.
const maxRecord = 64 << 20

// decodeRecord reads the file of the index that remembers a word: ErrCorrupt.
func decodeRecord(data []byte, ref Ref, platform Platform) (w word, err error) {
	if err := strictjson.Within(data, maxRecord, &w); err != nil {
		return word{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if w.manifest, err = decodeManifestOf(w.Raw, ref, platform); err != nil {
		return word{}, err
	}
	return w, nil
}

// note is what the index is to say.
type note struct {
	path string
	data []byte
}

// index is what the cache remembers: of each release what its bucket said, and of
// each owner what it runs.
type index struct {
	folder   shareddir.Dir
	platform Platform
}

func (x index) dir() string { return filepath.Join(string(x.folder), indexName) }

func (x index) path(b Bucket, ref Ref) string {
	return filepath.Join(x.sourcePath(b), filepath.FromSlash(ref.folder()), x.platform.String()+".json")
}

// sourcePath is where all releases from this bucket are remembered. Buckets are
// told apart by the digest of their URL.
func (x index) sourcePath(b Bucket) string {
	return filepath.Join(x.dir(), sourceOf(b))
}

// lookup returns what is remembered of a release from this bucket.
func (x index) lookup(b Bucket, ref Ref) (word, error) {
	path := x.path(b, ref)
	data, err := readIndex(path)
	if errors.Is(err, os.ErrNotExist) {
		return word{}, fmt.Errorf("not in the cache %s", x.folder)
	}
	var w word
	if err == nil {
		w, err = decodeRecord(data, ref, x.platform)
	}
	if err != nil {
		return word{}, fmt.Errorf("cache index %s: %w", path, err)
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

// remember notes a release whose files are here, for the day when the bucket is
// away: errGone if they are not.
func (x index) remember(ctx context.Context, in Installed, n note) error {
	return x.folder.Locked(ctx, func() error {
		if _, err := os.Stat(in.Dir); err != nil {
			return fmt.Errorf("%s: %w", in.Dir, errGone)
		}
		return x.write(n)
	})
}

// write writes a note, or, if that is what the index says, notes that it is
// used. The caller is in Locked.
func (x index) write(n note) error {
	if before, err := readIndex(n.path); err == nil && bytes.Equal(before, n.data) {
		now := time.Now()
		return os.Chtimes(n.path, now, now)
	}
	if err := os.MkdirAll(filepath.Dir(n.path), 0o755); err != nil {
		return err
	}
	return x.folder.Write(n.path, n.data)
}
