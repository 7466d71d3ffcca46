package release

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weirkeeper/weirkeeper/bootstrap/release/shareddir"
)

// maxRounds bounds how often a fetch restarts because a concurrent Collect removed files.
const maxRounds = 5

// errGone: the files of a release are no longer in the cache.
var errGone = errors.New("removed from the cache")

// Fetch returns a verified release. It reads the bucket and downloads what the cache does not have. If the bucket is
// unavailable and this release was fetched from it before, Fetch returns the cached copy with the reason in BucketErr.
// It never returns another version. It rejects what Trust does not accept and yanked releases, also from the cache.
// Errors name the cause and then the object's URL, and wrap the sentinels of this package. Concurrent fetches of a release
// share one download.
func (c *Cache) Fetch(ctx context.Context, b Bucket, ref Ref) (Installed, error) {
	if err := ref.Validate(); err != nil {
		return Installed{}, fmt.Errorf("fetch: %w", err)
	}
	in, err := c.flights.share(ctx, b.URL("")+" "+ref.String(), func() (Installed, error) { return c.fetch(ctx, b, ref) })
	if err != nil {
		return Installed{}, fmt.Errorf("fetch %s: %w", ref, classifyLocal(err))
	}
	return in, nil
}

func (c *Cache) fetch(ctx context.Context, b Bucket, ref Ref) (Installed, error) {
	known, uncached := c.lookup(ctx, b, ref)
	wait := c.cfg.RetryTimeout
	if uncached == nil {
		wait = min(wait, cachedRetryTimeout)
	}
	latest, err := readBucketRecord(ctx, b, ref, c.cfg.Platform, retryTimeout(wait))
	switch {
	case err == nil:
		return c.apply(ctx, b, latest, known)
	case !errors.Is(err, ErrUnavailable) || ctx.Err() != nil:
		return Installed{}, err
	case uncached != nil:
		return Installed{}, fmt.Errorf("%w; %w", err, uncached)
	}
	seen, sharedErr, errSeen := c.updateSeen(ctx, seenKey(b, ref, c.cfg.Platform), known.seen(), Seen{})
	known.Yanked = seen.Yanked
	if refusal := cmp.Or(errSeen, known.admit(c.cfg.Trust)); refusal != nil {
		return Installed{}, fmt.Errorf("%w; %w", refusal, err)
	}
	in := c.installed(known.manifest)
	in.BucketErr, in.SharedErr = err, sharedErr
	return in, nil
}

// lookup returns the index entry of a release from this bucket if its verified files are in the cache.
func (c *Cache) lookup(ctx context.Context, b Bucket, ref Ref) (bucketRecord, error) {
	w, err := c.index.lookup(b, ref)
	if err != nil {
		return bucketRecord{}, err
	}
	in := c.installed(w.manifest)
	if err := in.verify(ctx); err != nil {
		return bucketRecord{}, fmt.Errorf("cached in %s: %w", in.Dir, err)
	}
	return w, nil
}

// apply rejects the release or installs it, as the bucket's record requires. known is the cache's record, with verified
// files, or zero.
func (c *Cache) apply(ctx context.Context, b Bucket, latest, known bucketRecord) (Installed, error) {
	ref := latest.manifest.Ref
	url := b.URL(key(ref, c.cfg.Platform, manifestName))
	refusal := latest.admit(c.cfg.Trust)
	k := seenKey(b, ref, c.cfg.Platform)
	seen, sharedErr, err := c.updateSeen(ctx, k, known.seen(), Seen{Yanked: latest.Yanked})
	if latest.Yanked == nil && seen.Yanked != nil {
		latest.Yanked = seen.Yanked
		refusal = fmt.Errorf("%w (its %s is now missing from the bucket)", seen.Yanked.err(), yankedName)
	}
	if err == nil && seen.Digest != (Digest{}) && seen.Digest != latest.manifest.Object.SHA256 {
		err = changed(k, latest.manifest.Object.SHA256, seen)
	}
	if err := cmp.Or(refusal, err); err != nil {
		return Installed{}, errors.Join(fmt.Errorf("%w (%s)", err, url), c.noteYank(ctx, b, latest, known))
	}
	in, err := c.ensureFiles(ctx, b, latest, known)
	if err != nil {
		return Installed{}, err
	}
	if in.SharedErr = sharedErr; seen.Digest != (Digest{}) {
		return in, nil
	}
	seen, in.SharedErr, err = c.updateSeen(ctx, k, Seen{}, latest.seen())
	if err == nil && seen.Digest != in.Digest { // another host was faster
		err = changed(k, latest.manifest.Object.SHA256, seen)
	}
	if err != nil {
		return Installed{}, fmt.Errorf("%w (%s)", err, url)
	}
	return in, nil
}

// ensureFiles downloads the files of a release unless the cache has them, verified.
func (c *Cache) ensureFiles(ctx context.Context, b Bucket, latest, known bucketRecord) (Installed, error) {
	in := c.installed(latest.manifest)
	record, err := json.Marshal(latest)
	if err != nil {
		return Installed{}, err
	}
	indexEntry := indexEntry{path: c.index.path(b, latest.manifest.Ref), data: record}
	present := known.Raw != nil && known.manifest.Object == latest.manifest.Object && known.manifest.sameContent(latest.manifest)
	for range maxRounds {
		if !present {
			if present, err = in.intact(ctx); err != nil {
				return Installed{}, err
			}
		}
		if !present { // absent or damaged
			return in, c.download(ctx, b, in, indexEntry)
		}
		if err = c.index.remember(ctx, in, indexEntry); !errors.Is(err, errGone) {
			return in, err
		}
		present = false
	}
	return Installed{}, err
}

// noteYank records in the cache that a cached release is yanked.
func (c *Cache) noteYank(ctx context.Context, b Bucket, latest, known bucketRecord) error {
	if latest.Yanked == nil || known.Raw == nil {
		return nil
	}
	known.Yanked = latest.Yanked
	record, err := json.Marshal(known)
	if err == nil {
		err = c.index.remember(ctx, c.installed(known.manifest), indexEntry{c.index.path(b, known.manifest.Ref), record})
	}
	if err != nil && !errors.Is(err, errGone) {
		return fmt.Errorf("record the yank: %w", err)
	}
	return nil
}

// download installs the release's files: archive, digest, files, digests, sync, rename. Until the rename they are in a
// temporary folder. The archive is not: another process may continue its download.
func (c *Cache) download(ctx context.Context, b Bucket, in Installed, n indexEntry) error {
	return c.folder.WithTemp(ctx, func(temp string) error {
		object, err := c.folder.OpenPartial(ctx, in.Digest.String(), temp, c.cfg.RetryTimeout)
		if err != nil {
			return err
		}
		defer object.Close() // releases the lock
		t := newTransfer(b, in.Manifest, object, func(done, total int64) { c.cfg.Progress(in.Ref, done, total) })
		intact, err := in.intact(ctx) // another process may have been faster
		if err != nil {
			return err
		}
		if !intact {
			err := t.adopt(ctx)
			if err == nil {
				err = t.finish(ctx, retryTimeout(c.cfg.RetryTimeout))
			}
			if err != nil {
				continues := t.done > 0 && (errors.Is(err, ErrUnavailable) || ctx.Err() != nil)
				if !continues {
					os.Remove(object.Name()) // a file that stays is removed later by SweepPartials
				}
				return err
			}
		}
		err = c.settle(ctx, object, in, n, temp)
		if err == nil || ctx.Err() == nil {
			os.Remove(object.Name())
		}
		if err != nil {
			return fmt.Errorf("%w (%s)", err, t.bucket.URL(t.key))
		}
		return nil
	})
}

func (c *Cache) settle(ctx context.Context, object *os.File, in Installed, n indexEntry, temp string) error {
	intact, err := in.intact(ctx)
	if err == nil && !intact {
		err = unpackInto(ctx, filepath.Join(temp, filesName), object, in.Manifest)
	}
	if err != nil {
		return err
	}
	return c.folder.Locked(ctx, func() error { return c.install(ctx, temp, in, n) })
}

func unpackInto(ctx context.Context, dir string, archive *os.File, m Manifest) error {
	root, err := newRoot(dir, archive)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := unpack(ctx, archive, m, root); err != nil {
		return err
	}
	return fs.WalkDir(os.DirFS(dir), ".", func(p string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		return shareddir.Sync(filepath.Join(dir, p))
	})
}

// newRoot creates a folder for the files of an archive, and seeks to the archive's start.
func newRoot(dir string, archive *os.File) (*os.Root, error) {
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil { // see AllowUser
		return nil, err
	}
	return os.OpenRoot(dir)
}

// install renames the verified files in temp into place and writes their index entry. If another process was faster,
// its files stay. Damaged files are moved away, and users that could read them can read the new ones. Call it from Locked.
func (c *Cache) install(ctx context.Context, temp string, in Installed, n indexEntry) error {
	intact, err := in.intact(ctx)
	if err != nil {
		return err
	}
	if intact {
		return c.index.write(n)
	}
	if _, err := os.Lstat(in.Dir); err == nil {
		if err := copyReaders(filepath.Join(temp, filesName), in.Dir); err != nil {
			return err
		}
		if err := os.Rename(in.Dir, filepath.Join(temp, "damaged")); err != nil {
			return err
		}
	}
	if err := os.Rename(filepath.Join(temp, filesName), in.Dir); err != nil {
		return err
	}
	err = errors.Join(shareddir.Sync(filepath.Dir(in.Dir)), c.index.write(n))
	if err != nil { // without an index entry the files would be unreachable
		return errors.Join(err, os.Rename(in.Dir, filepath.Join(temp, filesName)))
	}
	return nil
}
