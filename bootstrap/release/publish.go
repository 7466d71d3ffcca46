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

// Source is what is published.
type Source struct {
	// Path is an executable file, or a folder; links in it are refused.
	Path string
	// Entry is the path, within the folder, of the executable to start. Empty
	// if Path is a file, which is the entry.
	Entry string
	// SDK and Protocol go into the manifest: name and version of the SDK that
	// the signal is built with, and the plugin protocol that it speaks. Left
	// empty, they are found in the entry if it is a plugin made with our SDK in
	// Go; else there are none.
	SDK      string
	Protocol int
	Created  time.Time            // the time of publishing
	Key      *minisign.PrivateKey // signs the release; nil: it is not signed
}

// Publish writes a release to the bucket and returns its manifest. If it was
// published before with the same files, nothing is written, except a signature
// that it did not have, and the manifest of then is returned (told by its
// Created); with others, or signed by another key, ErrExists. ErrYanked if that
// release was yanked. ErrUnsafe if the source holds links, devices or more than
// the limits.
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
	if err := os.Remove(archive.Name()); err != nil { // the descriptor is enough, and leaves nothing behind
		return Manifest{}, err
	}
	if m, err = packSource(archive, m, src); err != nil {
		return Manifest{}, err
	}
	if before, err := published(ctx, b, m, src.Key); !errors.Is(err, ErrNotFound) {
		return before, err
	}
	// The object's name is its digest: one that is there already is the same.
	err = write(ctx, b, m.objectKey(), archive, m.Object.Size)
	if err != nil && !errors.Is(err, ErrExists) {
		return Manifest{}, err
	}
	m, encoded, err := claim(ctx, b, m, src.Key)
	if err != nil {
		return Manifest{}, err
	}
	err = writeBytes(ctx, b, key(m.Ref, m.Platform, manifestName), encoded)
	if errors.Is(err, ErrExists) { // another publisher was faster, or an answer was lost
		return published(ctx, b, m, src.Key)
	}
	return m, err
}

// published returns the manifest that the bucket has for this release, signed by
// the key if there is one: ErrNotFound if there is none, ErrExists if it is of
// other files or signed by another key, ErrYanked.
func published(ctx context.Context, b Bucket, m Manifest, signer *minisign.PrivateKey) (Manifest, error) {
	before, err := readWord(ctx, b, m.Ref, m.Platform, patience(DefaultPatience))
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

// addSignature signs a release that is published already. It may be signed by
// the same key: else ErrExists.
func addSignature(ctx context.Context, b Bucket, w word, signer minisign.PrivateKey) error {
	k := key(w.manifest.Ref, w.manifest.Platform, signatureName)
	if w.Signature == nil {
		signature, err := sign(signer, w.manifest, w.Raw)
		if err != nil {
			return err
		}
		if err = writeBytes(ctx, b, k, signature); !errors.Is(err, ErrExists) {
			return err
		}
		if w.Signature, err = readSignature(ctx, b, w.manifest.Ref, w.manifest.Platform, patience(DefaultPatience)); err != nil {
			return err
		}
	}
	if _, err := trustIn(signer).judge(w.manifest, w.Raw, w.Signature); err != nil {
		return fmt.Errorf("%s: %w, and is not by this key: %w", b.URL(k), ErrExists, err)
	}
	return nil
}

// claim makes sure that the release's signature is there before its manifest is,
// and returns the manifest that it is of. A publisher that died in between left
// a signature: with the same files and the same key its manifest can be made
// again, for the signed comment tells when it was made. Else ErrExists.
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
	left, err := readSignature(ctx, b, m.Ref, m.Platform, patience(DefaultPatience))
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

// remake returns the manifest that a signature is of, if it is one of the same
// files by the same key.
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
	public, _ := signer.Public().(minisign.PublicKey) // it is one, by minisign's word
	return Trust{Keys: []minisign.PublicKey{public}, Required: true}
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
			return fmt.Errorf("%w: %.100q is no path for an archive: want up to %d elements and %d bytes", ErrUnsafe, p, MaxDepth, maxPath)
		case len(paths) == MaxFiles || total > MaxUnpacked:
			return fmt.Errorf("%w: %s holds more than %d files or %d bytes", ErrUnsafe, dir, MaxFiles, int64(MaxUnpacked))
		}
		paths = append(paths, p)
		return nil
	})
	slices.Sort(paths)
	return paths, err
}
