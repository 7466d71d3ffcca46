package release

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// fetch is Fetch without the sharing.
func (c *Cache) fetch(ctx context.Context, b Bucket, ref Ref) (Installed, error) {
	cached, uncached := c.lookup(b, ref)
	wait := c.cfg.Patience
	if uncached == nil {
		wait = min(wait, cachedPatience)
	}
	m, err := readManifest(ctx, b, ref, c.cfg.Platform, patience(wait))
	if err != nil {
		if !errors.Is(err, ErrUnavailable) || ctx.Err() != nil {
			return Installed{}, fmt.Errorf("fetch %s: %w", ref, err)
		}
		if uncached != nil {
			return Installed{}, fmt.Errorf("fetch %s: %w; %w", ref, err, uncached)
		}
		cached.Away = err
		return cached, nil
	}
	in := c.installed(m)
	if uncached == nil && cached.Manifest.Object == m.Object && cached.Manifest.sameContent(m) {
		return in, nil
	}
	if verify(in.Dir, m) != nil { // absent or damaged
		if err := c.download(ctx, b, in); err != nil {
			return Installed{}, fmt.Errorf("fetch %s: %w", ref, err)
		}
	}
	if err := c.remember(b, m); err != nil {
		return Installed{}, fmt.Errorf("fetch %s: note it in the cache: %w", ref, err)
	}
	return in, nil
}

// download puts the release's files into place: archive, digest, files,
// digests, sync, rename. Until the rename all of it is in a temporary folder.
func (c *Cache) download(ctx context.Context, b Bucket, in Installed) error {
	return c.withTemp(func(temp string) error {
		object, err := os.Create(filepath.Join(temp, "object"))
		if err != nil {
			return err
		}
		defer object.Close()
		if err := c.transfer(ctx, b, in.Manifest, object); err != nil {
			return err
		}
		files := filepath.Join(temp, "files")
		if err := unpackInto(files, object, in.Manifest); err != nil {
			return fmt.Errorf("%s: %w", b.URL(in.Manifest.objectKey()), err)
		}
		return c.locked(func() error { return install(files, filepath.Join(temp, "damaged"), in) })
	})
}

// transfer writes the object to w and compares size and digest. A transfer that
// breaks is resumed where it broke; patience begins anew with every byte.
func (c *Cache) transfer(ctx context.Context, b Bucket, m Manifest, w io.Writer) error {
	t := &transfer{bucket: b, manifest: m, file: w, hash: sha256.New(), progress: c.cfg.Progress}
	for t.done < m.Object.Size {
		before := t.done
		err := patience(c.cfg.Patience).retry(ctx, t.resume)
		if errors.Is(err, ErrUnavailable) && t.done > before && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return err
		}
	}
	if got := Digest(t.hash.Sum(nil)); got != m.Object.SHA256 {
		return t.corrupt("has sha256 %v, the manifest says %v", got, m.Object.SHA256)
	}
	return nil
}

// transfer is the state of a download between two attempts.
type transfer struct {
	bucket   Bucket
	manifest Manifest
	file     io.Writer
	hash     hash.Hash
	done     int64 // bytes written and hashed
	progress func(ref Ref, done, total int64)
}

// resume reads the object from where the last attempt ended up to its end.
func (t *transfer) resume(ctx context.Context, alive func()) error {
	size := t.manifest.Object.Size
	body, err := t.bucket.Get(ctx, t.manifest.objectKey(), t.done)
	if err != nil {
		return err
	}
	defer body.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := body.Read(buf)
		if int64(n) > size-t.done {
			return t.corrupt("is larger than the %d bytes that the manifest says", size)
		}
		if n > 0 {
			alive()
			if _, err := t.file.Write(buf[:n]); err != nil {
				return err
			}
			t.hash.Write(buf[:n])
			t.done += int64(n)
			t.progress(t.manifest.Ref, t.done, size)
		}
		switch {
		case err == io.EOF && t.done < size:
			return t.corrupt("is truncated: %d of %d bytes", t.done, size)
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

func (t *transfer) corrupt(format string, args ...any) error {
	return fmt.Errorf("%s: %w: "+format, append([]any{t.bucket.URL(t.manifest.objectKey()), ErrCorrupt}, args...)...)
}

// unpackInto unpacks an archive into a new folder, and syncs it.
func unpackInto(dir string, archive *os.File, m Manifest) error {
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := unpack(archive, m, root); err != nil {
		return err
	}
	return fs.WalkDir(os.DirFS(dir), ".", func(p string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		return syncDir(filepath.Join(dir, p))
	})
}

// install renames verified files into place. If another process was faster, its
// files stay; damaged ones make room. The caller is in locked.
func install(files, damaged string, in Installed) error {
	if _, err := os.Lstat(in.Dir); err == nil {
		if verify(in.Dir, in.Manifest) == nil {
			return nil
		}
		if err := os.Rename(in.Dir, damaged); err != nil {
			return err
		}
	}
	if err := os.Rename(files, in.Dir); err != nil {
		return err
	}
	return syncDir(filepath.Dir(in.Dir))
}
