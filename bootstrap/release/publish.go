package release

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Source is what is published.
type Source struct {
	// Path is an executable file, or a folder; links in it are refused.
	Path string
	// Entry is the path, within the folder, of the executable to start. Empty
	// if Path is a file, which is the entry.
	Entry string
	// SDK and Protocol go into the manifest: name and version of the SDK that
	// the signal is built with, and the plugin protocol that it speaks (0: none).
	SDK      string
	Protocol int
	Created  time.Time // the time of publishing
}

// Publish writes a release to the bucket and returns its manifest. If it was
// published before with the same files, nothing is written and the manifest of
// then is returned (told by its Created); with others, ErrExists. ErrUnsafe if
// the source holds links, devices or more than the limits.
func Publish(ctx context.Context, b Bucket, ref Ref, platform Platform, src Source) (Manifest, error) {
	if err := errors.Join(ref.Validate(), platform.Validate()); err != nil {
		return Manifest{}, fmt.Errorf("publish: %w", err)
	}
	m := Manifest{
		Format: manifestFormat, Ref: ref, Platform: platform,
		Created: src.Created.UTC(), SDK: src.SDK, Protocol: src.Protocol, Entry: src.Entry,
	}
	m, err := publish(ctx, b, m, src)
	if err != nil {
		return Manifest{}, fmt.Errorf("publish %s for %s: %w", ref, platform, err)
	}
	return m, nil
}

func publish(ctx context.Context, b Bucket, m Manifest, src Source) (Manifest, error) {
	archive, err := os.CreateTemp("", "weir-release-*.tar.gz")
	if err != nil {
		return Manifest{}, err
	}
	defer archive.Close()
	if err := os.Remove(archive.Name()); err != nil { // the descriptor is enough, and leaves nothing behind
		return Manifest{}, err
	}
	if m, err = packSource(archive, m, src); err != nil {
		return Manifest{}, err
	}
	encoded, err := m.encode()
	if err != nil {
		return Manifest{}, err
	}
	if before, err := published(ctx, b, m); !errors.Is(err, ErrNotFound) {
		return before, err
	}
	// The object's name is its digest: one that is there already is the same.
	err = put(ctx, b, m.objectKey(), archive, m.Object.Size)
	if err != nil && !errors.Is(err, ErrExists) {
		return Manifest{}, err
	}
	err = put(ctx, b, key(m.Ref, m.Platform, manifestName), bytes.NewReader(encoded), int64(len(encoded)))
	if errors.Is(err, ErrExists) { // another publisher was faster, or an answer was lost
		return published(ctx, b, m)
	}
	return m, err
}

// published returns the manifest that the bucket has for this release:
// ErrNotFound if there is none, ErrExists if it is of other files.
func published(ctx context.Context, b Bucket, m Manifest) (Manifest, error) {
	before, err := readManifest(ctx, b, m.Ref, m.Platform, patience(DefaultPatience))
	if err != nil {
		return Manifest{}, err
	}
	if !before.sameContent(m) {
		return Manifest{}, fmt.Errorf("%s: %w with other content, of %s; publish it as a new version",
			b.URL(key(m.Ref, m.Platform, manifestName)), ErrExists, before.Created.Format(time.RFC3339))
	}
	return before, nil
}

func put(ctx context.Context, b Bucket, key string, body io.ReadSeeker, size int64) error {
	return patience(DefaultPatience).retry(ctx, func(ctx context.Context, alive func()) error {
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			return err
		}
		return b.Put(ctx, key, aliveReader{body, alive}, size)
	})
}

// packSource writes the source's archive and completes the manifest.
func packSource(archive *os.File, m Manifest, src Source) (Manifest, error) {
	dir, paths, err := survey(src)
	if err != nil {
		return Manifest{}, err
	}
	if src.Entry == "" && len(paths) == 1 {
		m.Entry = paths[0]
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Manifest{}, err
	}
	defer root.Close()
	hash := sha256.New()
	if m.Files, err = pack(io.MultiWriter(archive, hash), root, paths); err != nil {
		return Manifest{}, err
	}
	entry, ok := m.file(m.Entry)
	if !ok || entry.Mode != Executable {
		return Manifest{}, fmt.Errorf("%s: entry %q is not an executable file in it", src.Path, m.Entry)
	}
	m.Object.Size, err = archive.Seek(0, io.SeekCurrent)
	hash.Sum(m.Object.SHA256[:0])
	m.Object.Name = objectName(m.Object.SHA256)
	return m, err
}

// survey returns a folder and the paths in it that make the source, in order.
func survey(src Source) (dir string, paths []string, err error) {
	path, err := filepath.EvalSymlinks(src.Path)
	if err != nil {
		return "", nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", nil, err
	}
	if info.IsDir() {
		paths, err = walk(path)
		return path, paths, err
	}
	if src.Entry != "" {
		return "", nil, fmt.Errorf("%s is a file: an entry is for folders", src.Path)
	}
	return filepath.Dir(path), []string{filepath.Base(path)}, nil
}

// walk returns the regular files of a folder in byte order of their paths.
func walk(dir string) (paths []string, err error) {
	var total int64
	err = fs.WalkDir(os.DirFS(dir), ".", func(p string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		total += info.Size()
		switch {
		case !info.Mode().IsRegular():
			return fmt.Errorf("%w: %s is not a regular file", ErrUnsafe, filepath.Join(dir, p))
		case !safePath(p):
			return fmt.Errorf("%w: %q is no path for an archive", ErrUnsafe, p)
		case len(paths) == MaxFiles || total > MaxUnpacked:
			return fmt.Errorf("%w: %s holds more than %d files or %d bytes", ErrUnsafe, dir, MaxFiles, int64(MaxUnpacked))
		}
		paths = append(paths, p)
		return nil
	})
	slices.Sort(paths)
	return paths, err
}
