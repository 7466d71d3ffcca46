package release

import (
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

	"aead.dev/minisign"
)

// Source is the input of Publish.
type Source struct {
	// Path is an executable file, or a folder without links.
	Path string
	// Entry is the path within the folder of the executable to start. It is empty if Path is a file.
	Entry string
	// SDK and Protocol go into the manifest: name and version of the signal's SDK, and the version of the plugin
	// protocol. If empty, Publish detects them in the entry if it is a Go plugin made with our SDK.
	SDK      string
	Protocol int
	Created  time.Time            // the time of publishing
	Key      *minisign.PrivateKey // signs the release; nil: not signed
	// Progress is called with the bytes of the archive that are read for the upload, and their number. An upload reads
	// the archive for its digest first, and again after a failure: then done falls. It may be nil.
	Progress func(done, total int64)
}

// Publish writes a release to the bucket and returns its manifest. If it was published before with the same files,
// Publish returns the existing manifest. It then writes at most a missing signature. Other files, or a signature of
// another key, are ErrExists. A yanked release is ErrYanked. Links, devices and exceeded limits in the source are
// ErrUnsafe.
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
		return Manifest{}, fmt.Errorf("publish %s for %s: %w", ref, platform, classifyLocal(err))
	}
	return m, nil
}

func publish(ctx context.Context, b Bucket, m Manifest, src Source) (Manifest, error) {
	archive, err := os.CreateTemp("", "weir-release-*.tar.gz")
	if err != nil {
		return Manifest{}, err
	}
	defer archive.Close()
	if err := os.Remove(archive.Name()); err != nil { // the open descriptor is enough
		return Manifest{}, err
	}
	if m, err = packSource(archive, m, src); err != nil {
		return Manifest{}, err
	}
	if before, err := published(ctx, b, m, src.Key); !errors.Is(err, ErrNotFound) {
		return before, err
	}
	// The object's name is its digest, so an existing object has the same content.
	err = write(ctx, b, m.objectKey(), &progressReader{in: archive, total: m.Object.Size, report: src.Progress}, m.Object.Size)
	if err != nil && !errors.Is(err, ErrExists) {
		return Manifest{}, err
	}
	m, encoded, err := claim(ctx, b, m, src.Key)
	if err != nil {
		return Manifest{}, err
	}
	err = writeBytes(ctx, b, key(m.Ref, m.Platform, manifestName), encoded)
	if errors.Is(err, ErrExists) { // another publisher was faster, or a response was lost
		return published(ctx, b, m, src.Key)
	}
	return m, err
}

// published returns the bucket's manifest of this release, and signs it if there is a key. It returns ErrNotFound if
// it is missing, ErrExists if its files or its signing key differ, and ErrYanked.
func published(ctx context.Context, b Bucket, m Manifest, signer *minisign.PrivateKey) (Manifest, error) {
	before, err := readBucketRecord(ctx, b, m.Ref, m.Platform, retryTimeout(defaultRetryTimeout))
	if err != nil {
		return Manifest{}, err
	}
	url := b.URL(key(m.Ref, m.Platform, manifestName))
	if before.Yanked != nil {
		return Manifest{}, fmt.Errorf("%s: %w; publish it as a new version", url, before.Yanked.err())
	}
	if !before.manifest.sameContent(m) {
		return Manifest{}, fmt.Errorf("%s: %w with other content, of %s; publish it as a new version",
			url, ErrExists, before.manifest.Created.Format(time.RFC3339))
	}
	if signer == nil {
		return before.manifest, nil
	}
	return before.manifest, addSignature(ctx, b, before, *signer)
}

// addSignature signs a published release. It returns ErrExists if another key has signed it.
func addSignature(ctx context.Context, b Bucket, w bucketRecord, signer minisign.PrivateKey) error {
	k := key(w.manifest.Ref, w.manifest.Platform, signatureName)
	if w.Signature == nil {
		signature, err := sign(signer, w.manifest, w.Raw)
		if err != nil {
			return err
		}
		if err = writeBytes(ctx, b, k, signature); !errors.Is(err, ErrExists) {
			return err
		}
		if w.Signature, err = readSignature(ctx, b, w.manifest.Ref, w.manifest.Platform, retryTimeout(defaultRetryTimeout)); err != nil {
			return err
		}
	}
	if _, err := trustIn(signer).judge(w.manifest, w.Raw, w.Signature); err != nil {
		return fmt.Errorf("%s: %w, and is not by this key: %w", b.URL(k), ErrExists, err)
	}
	return nil
}

// claim ensures that the release's signature exists before its manifest, and returns the manifest that it signs. A
// publisher that died in between left a signature. With the same files and key, its manifest can be rebuilt, because
// the signed comment contains the time. Otherwise claim returns ErrExists.
func claim(ctx context.Context, b Bucket, m Manifest, signer *minisign.PrivateKey) (Manifest, []byte, error) {
	encoded, err := m.encode()
	if err != nil {
		return Manifest{}, nil, err
	}
	k := key(m.Ref, m.Platform, signatureName)
	if signer != nil {
		signature, err := sign(*signer, m, encoded)
		if err != nil {
			return Manifest{}, nil, err
		}
		if err := writeBytes(ctx, b, k, signature); !errors.Is(err, ErrExists) {
			return m, encoded, err
		}
	}
	left, err := readSignature(ctx, b, m.Ref, m.Platform, retryTimeout(defaultRetryTimeout))
	if err != nil || (left == nil && signer == nil) {
		return m, encoded, err
	}
	if signer != nil {
		if m, encoded, err = remake(m, left, *signer); err == nil {
			return m, encoded, nil
		}
	}
	return Manifest{}, nil, fmt.Errorf("%s: %w of other content, by a publisher that did not finish; publish it as a new version",
		b.URL(k), ErrExists)
}

// remake returns the manifest that a signature signs, if it has the same files and key.
func remake(m Manifest, signature []byte, signer minisign.PrivateKey) (Manifest, []byte, error) {
	s, err := decodeSignature(signature)
	if err != nil {
		return m, nil, err
	}
	if m.Created, err = createdBy(m, s); err != nil {
		return m, nil, err
	}
	encoded, err := m.encode()
	if err != nil {
		return m, nil, err
	}
	_, err = trustIn(signer).judge(m, encoded, signature)
	return m, encoded, err
}

func trustIn(signer minisign.PrivateKey) Trust {
	public, _ := signer.Public().(minisign.PublicKey) // minisign guarantees the type
	return Trust{Keys: []minisign.PublicKey{public}, Required: true}
}

// packSource writes the source's archive and completes the manifest.
func packSource(archive *os.File, m Manifest, src Source) (Manifest, error) {
	dir, paths, err := listSource(src)
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
	if m, err = detect(filepath.Join(dir, filepath.FromSlash(m.Entry)), m); err != nil {
		return Manifest{}, err
	}
	hash := sha256.New()
	if m.Files, err = pack(io.MultiWriter(archive, hash), root, paths); err != nil {
		return Manifest{}, err
	}
	entry, ok := m.file(m.Entry)
	if !ok || entry.Mode != Executable {
		return Manifest{}, fmt.Errorf("%s: entry %q is not an executable file in it (chmod +x it, or name another entry)", src.Path, m.Entry)
	}
	m.Object.Size, err = archive.Seek(0, io.SeekCurrent)
	hash.Sum(m.Object.SHA256[:0])
	m.Object.Name = objectName(m.Object.SHA256)
	return m, err
}

// listSource returns a folder and the sorted paths in it that form the source.
func listSource(src Source) (dir string, paths []string, err error) {
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
			return fmt.Errorf("%w: %.100q is not a valid path in an archive: want up to %d elements and %d bytes", ErrUnsafe, p, MaxDepth, maxPath)
		case len(paths) == maxFiles || total > maxUnpacked:
			return fmt.Errorf("%w: %s holds more than %d files or %d bytes", ErrUnsafe, dir, maxFiles, int64(maxUnpacked))
		}
		paths = append(paths, p)
		return nil
	})
	slices.Sort(paths)
	return paths, err
}
