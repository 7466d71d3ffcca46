package release

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

const (
	clustermanPrefix = "clusterman_signals_"
	clustermanSuffix = ".tar.gz"
	clustermanEntry  = "prodenv/bin/python"
	// clustermanIndex is a folder of the index, beside those of namespaces. It is not a valid namespace.
	clustermanIndex = "~clusterman"
)

// tarball is a file of the cache's index: the state of a tarball when it was unpacked. A tarball has no manifest to
// compare with.
type tarball struct {
	Codename string    `json:"codename"`
	Version  string    `json:"version"`
	Seen     time.Time `json:"seen"` // when its content was first seen
	Tag      string    `json:"tag"`  // of the store, at the last comparison
	Size     int64     `json:"size"` // bytes
	SHA256   Digest    `json:"sha256"`
	Files    []File    `json:"files"`
	Links    links     `json:"links"`
}

// Validate returns the first problem that unpacking could not have produced.
func (t tarball) Validate() error {
	m := Manifest{Files: t.Files}
	for len(m.Files) > maxFiles { // validateFiles rejects more than maxFiles
		part := m
		part.Files = m.Files[:maxFiles]
		if err := part.validateFiles(); err != nil {
			return err
		}
		m.Files = m.Files[maxFiles:]
	}
	for _, one := range t.Links {
		if !safePath(one.Path) {
			return fmt.Errorf("%w: link %.100q", ErrUnsafe, one.Path)
		}
	}
	return errors.Join(m.validateFiles(), t.Links.check(clustermanEntry))
}

// firstSeen returns the first-seen record that the index implies; a zero Seen for a zero tarball.
func (t tarball) firstSeen() Seen {
	if t.Tag == "" {
		return Seen{}
	}
	return Seen{Digest: t.SHA256, At: t.Seen}
}

// tarballKey returns the key of the first-seen record of a version, which all its signals share.
func tarballKey(b Bucket, codename, version string, p Platform) SeenKey {
	return seenKey(b, Ref{Namespace: clustermanIndex, Name: codename, Version: version}, p)
}

// FetchClusterman is Fetch for Clusterman's layout. All signals of a version are in one object,
// CODENAME/clusterman_signals_VERSION.tar.gz, which contains a virtual environment. codename is the name of the
// distribution (jammy). The object is downloaded once for all signals.
//
// There is no manifest, so the first content seen of a version by any host is pinned; Installed.Pinned reports it. If
// the object changes later, the error is ErrChanged, until ForgetClusterman. The layout has no signatures: if they are
// required, the error is ErrUnsigned.
func (c *Cache) FetchClusterman(ctx context.Context, b Bucket, codename string, ref Ref) (Installed, error) {
	if err := ref.Validate(); err != nil {
		return Installed{}, fmt.Errorf("fetch: %w", err)
	}
	if !names.ValidRelease(codename) {
		return Installed{}, fmt.Errorf("fetch %s: codename %.100q: want up to %d letters, digits and ._-", ref, codename, names.MaxRelease)
	}
	if c.cfg.Trust.Required {
		return Installed{}, fmt.Errorf("fetch %s: %w, and a signature is required: the layout of Clusterman has no signatures", ref, ErrUnsigned)
	}
	object := codename + "/" + clustermanPrefix + ref.Version + clustermanSuffix
	in, err := c.flights.share(ctx, b.URL(object), func() (Installed, error) { return c.fetchTarball(ctx, b, object, ref, codename) })
	if err != nil {
		return Installed{}, fmt.Errorf("fetch %s: %w", ref, classifyLocal(err))
	}
	in.Ref, in.Manifest.Ref = ref, ref // each caller gets its own ref
	return in, nil
}

func (c *Cache) fetchTarball(ctx context.Context, b Bucket, object string, ref Ref, codename string) (Installed, error) {
	path := filepath.Join(c.index.sourcePath(b), clustermanIndex, codename, strings.ReplaceAll(ref.Version, "/", "~")+".json")
	k := tarballKey(b, codename, ref.Version, c.cfg.Platform)
	known, errIndex := lookupTarball(path)
	first, sharedErr, err := c.updateSeen(ctx, k, known.firstSeen(), Seen{})
	if err != nil {
		return Installed{}, err
	}
	if errIndex != nil && first.Digest == (Digest{}) {
		return Installed{}, errIndex
	}
	in := c.installedTarball(known, ref)
	in.SharedErr = sharedErr
	present := false
	if known.Tag != "" {
		if present, err = in.intact(ctx); err != nil {
			return Installed{}, err
		}
	}
	wait := c.cfg.RetryTimeout
	if present {
		wait = min(wait, cachedRetryTimeout)
	}
	var stat Stat
	err = retryTimeout(wait).retry(ctx, func(ctx context.Context, _ func()) (err error) {
		stat, err = b.Stat(ctx, object)
		return err
	})
	same := known.SHA256 == first.Digest || first.Digest == (Digest{})
	switch {
	case errors.Is(err, ErrUnavailable) && present && ctx.Err() == nil:
		in.BucketErr = err
		return in, nil
	case errors.Is(err, ErrNotFound):
		return Installed{}, withAvailableTarballs(ctx, b, codename, ref, err)
	case err != nil:
		return Installed{}, err
	case present && same && stat.Tag == known.Tag:
		data, err := json.Marshal(known)
		if err == nil {
			err = c.index.remember(ctx, in, indexEntry{path, data})
		}
		if err == nil {
			in.Pinned = first.Digest == (Digest{})
			_, err = c.pin(ctx, k, known.SHA256)
		}
		if !errors.Is(err, errGone) {
			return in, err
		}
	}
	if in, err = c.downloadTarball(ctx, b, tarballFetch{object, path, codename, k, first, stat, ref}); err == nil {
		in.SharedErr = sharedErr
	}
	return in, err
}

// pin records the digest of a version, unless one is recorded. If another host was faster with another digest, the error
// is ErrChanged.
func (c *Cache) pin(ctx context.Context, k SeenKey, digest Digest) (Seen, error) {
	seen, _, err := c.updateSeen(ctx, k, Seen{}, Seen{Digest: digest, At: time.Now().UTC()})
	if err == nil && seen.Digest != digest {
		err = changed(k, digest, seen)
	}
	return seen, err
}

// ForgetClusterman is Forget for all signals of a version in Clusterman's layout.
func (c *Cache) ForgetClusterman(ctx context.Context, b Bucket, codename string, ref Ref) error {
	return c.forget(ctx, tarballKey(b, codename, ref.Version, c.cfg.Platform), ref)
}

// lookupTarball returns the index entry of a tarball, or a zero tarball if it is missing. A damaged entry is an error:
// it may be the only record of the first-seen content.
func lookupTarball(path string) (tarball, error) {
	data, err := readIndex(path)
	if errors.Is(err, os.ErrNotExist) {
		return tarball{}, nil
	}
	var t tarball
	if err == nil {
		t, err = decode[tarball](data, maxRecord, "")
	}
	if err != nil {
		return tarball{}, fmt.Errorf("cache index %s: %w; remove the file to accept the content of the bucket", path, err)
	}
	return t, nil
}

// tarballFetch is a tarball that is being fetched.
type tarballFetch struct {
	object   string // key of the object
	path     string // path of its file in the index
	codename string
	key      SeenKey
	first    Seen // zero digest: not seen yet
	stat     Stat
	ref      Ref // of the first caller
}

func (c *Cache) downloadTarball(ctx context.Context, b Bucket, p tarballFetch) (in Installed, err error) {
	if p.stat.Size <= 0 || p.stat.Size > maxObject {
		return in, fmt.Errorf("%s: %w: it has %d bytes: want 1 to %d", b.URL(p.object), ErrUnsafe, p.stat.Size, int64(maxObject))
	}
	err = c.folder.WithTemp(ctx, func(temp string) error {
		object, err := os.Create(filepath.Join(temp, "object"))
		if err != nil {
			return err
		}
		defer object.Close()
		t := &transfer{
			bucket: b, key: p.object, size: p.stat.Size, file: object, hash: sha256.New(),
			progress: func(done, total int64) { c.cfg.Progress(p.ref, done, total) },
		}
		if err := t.run(ctx, retryTimeout(c.cfg.RetryTimeout)); err != nil {
			return err
		}
		in, err = c.settleTarball(ctx, object, p, t.digest(), temp)
		if err != nil {
			return fmt.Errorf("%s: %w", b.URL(p.object), err)
		}
		return nil
	})
	return in, err
}

// settleTarball compares a tarball with its first-seen state, unpacks it, and installs it.
func (c *Cache) settleTarball(ctx context.Context, object *os.File, p tarballFetch, digest Digest, temp string) (Installed, error) {
	if p.first.Digest != (Digest{}) && digest != p.first.Digest {
		return Installed{}, changed(p.key, digest, p.first)
	}
	files, links, err := unpackVenv(ctx, filepath.Join(temp, filesName), object, clustermanEntry)
	if err != nil {
		return Installed{}, err
	}
	seen, err := c.pin(ctx, p.key, digest)
	if err != nil {
		return Installed{}, err
	}
	t := tarball{
		Codename: p.codename, Version: p.ref.Version, Seen: seen.At, Tag: p.stat.Tag, Size: p.stat.Size, SHA256: digest,
		Files: files, Links: links,
	}
	data, err := json.Marshal(t)
	if err != nil {
		return Installed{}, err
	}
	if len(data) > maxRecord {
		return Installed{}, fmt.Errorf("%w: the list of its files is larger than %d bytes", ErrUnsafe, maxRecord)
	}
	in := c.installedTarball(t, p.ref)
	in.Pinned = p.first.Digest == (Digest{})
	return in, c.folder.Locked(ctx, func() error { return c.install(ctx, temp, in, indexEntry{p.path, data}) })
}

// installedTarball returns the place of a tarball's files, whether they exist or not.
func (c *Cache) installedTarball(t tarball, ref Ref) Installed {
	in := c.installed(Manifest{
		Format: manifestFormat, Ref: ref, Platform: c.cfg.Platform, Created: t.Seen, Entry: clustermanEntry,
		Object: Object{Name: clustermanPrefix + ref.Version + clustermanSuffix, Size: t.Size, SHA256: t.SHA256},
		Files:  t.Files,
	})
	// -B prevents Python from writing compiled files into the verified folder.
	in.Args = []string{"-B", "-m", "clusterman_signals.run"}
	in.links = t.Links
	return in
}

// withAvailableTarballs adds the available versions to the error of a missing version.
func withAvailableTarballs(ctx context.Context, b Bucket, codename string, ref Ref, err error) error {
	var versions []string
	n := 0
	for k, listErr := range b.List(ctx, codename+"/"+clustermanPrefix) {
		if n++; listErr != nil || n > maxListed {
			break
		}
		version := strings.TrimPrefix(k, codename+"/"+clustermanPrefix)
		if version, ok := strings.CutSuffix(version, clustermanSuffix); ok && version != "" && !hasControl(version) {
			versions = append(versions, version)
		}
	}
	if len(versions) == 0 {
		return fmt.Errorf("%w: %w; there is no version of %s", ErrNotPublished, err, codename)
	}
	return fmt.Errorf("%w: %w; there are %s%s", ErrNotPublished, err, nearest(versions, ref.Version), suggestion(versions, ref.Version))
}
