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

	"github.com/weirkeeper/weirkeeper/internal/names"
)

const (
	clustermanPrefix = "clusterman_signals_"
	clustermanSuffix = ".tar.gz"
	clustermanEntry  = "prodenv/bin/python"
	// clustermanIndex is beside the namespaces in the index; none is called so.
	clustermanIndex = "~clusterman"
)

// tarball is a file of the cache's index: what a tarball was when it was first
// seen. That is all that can be known of it, for it has no manifest.
type tarball struct {
	Codename string    `json:"codename"`
	Version  string    `json:"version"`
	Seen     time.Time `json:"seen"` // first
	Tag      string    `json:"tag"`  // of the store, when it was last compared
	Size     int64     `json:"size"` // bytes
	SHA256   Digest    `json:"sha256"`
	Files    []File    `json:"files"`
	Links    links     `json:"links"`
}

// Validate reports the first thing that unpacking would not have made.
func (t tarball) Validate() error {
	m := Manifest{Files: t.Files}
	for len(m.Files) > MaxFiles { // validateFiles has the bound of a manifest
		part := m
		part.Files = m.Files[:MaxFiles]
		if err := part.validateFiles(); err != nil {
			return err
		}
		m.Files = m.Files[MaxFiles:]
	}
	for _, one := range t.Links {
		if !safePath(one.Path) {
			return fmt.Errorf("%w: link %.100q", ErrUnsafe, one.Path)
		}
	}
	return errors.Join(m.validateFiles(), t.Links.check(clustermanEntry))
}

// FetchClusterman is Fetch for the layout of Clusterman: all signals of a
// version are in one object, CODENAME/clusterman_signals_VERSION.tar.gz, which
// holds a virtual environment; codename is that of the distribution (jammy). It
// is downloaded once for all of them.
//
// There is no manifest, so what is first seen of a version is what it is:
// Installed.Pinned tells of it. If the object holds something else later, that
// is ErrChanged until who knows why removes the file that the error names. There
// are no signatures either: ErrUnsigned if they are required.
func (c *Cache) FetchClusterman(ctx context.Context, b Bucket, codename string, ref Ref) (Installed, error) {
	if err := ref.Validate(); err != nil {
		return Installed{}, fmt.Errorf("fetch: %w", err)
	}
	if !names.ValidRelease(codename) {
		return Installed{}, fmt.Errorf("fetch %s: codename %.100q: want up to %d letters, digits and ._-", ref, codename, names.MaxRelease)
	}
	if c.cfg.Trust.Required {
		return Installed{}, fmt.Errorf("fetch %s: %w, and a signature is required: the layout of Clusterman has none", ref, ErrUnsigned)
	}
	object := codename + "/" + clustermanPrefix + ref.Version + clustermanSuffix
	in, err := c.flights.share(ctx, b.URL(object), func() (Installed, error) { return c.fetchTarball(ctx, b, object, ref, codename) })
	if err != nil {
		return Installed{}, fmt.Errorf("fetch %s: %w", ref, classifyLocal(err))
	}
	in.Ref, in.Manifest.Ref = ref, ref // of each who shares it
	return in, nil
}

func (c *Cache) fetchTarball(ctx context.Context, b Bucket, object string, ref Ref, codename string) (Installed, error) {
	path := filepath.Join(c.index.sourcePath(b), clustermanIndex, codename, strings.ReplaceAll(ref.Version, "/", "~")+".json")
	known, err := lookupTarball(path)
	if err != nil {
		return Installed{}, err
	}
	in := c.installedTarball(known, ref)
	present := false
	if known.Tag != "" {
		if present, err = in.intact(ctx); err != nil {
			return Installed{}, err
		}
	}
	wait := c.cfg.Patience
	if present {
		wait = min(wait, cachedPatience)
	}
	var stat Stat
	err = patience(wait).retry(ctx, func(ctx context.Context, _ func()) (err error) {
		stat, err = b.Stat(ctx, object)
		return err
	})
	switch {
	case errors.Is(err, ErrUnavailable) && present && ctx.Err() == nil:
		in.Away = err
		return in, nil
	case errors.Is(err, ErrNotFound):
		return Installed{}, offerTarballs(ctx, b, codename, ref, err)
	case err != nil:
		return Installed{}, err
	case present && stat.Tag == known.Tag:
		data, err := json.Marshal(known)
		if err == nil {
			err = c.index.remember(ctx, in, note{path, data})
		}
		if !errors.Is(err, errGone) {
			return in, err
		}
	}
	known.Codename, known.Version = codename, ref.Version
	return c.downloadTarball(ctx, b, pin{object, path, known, stat, ref})
}

// lookupTarball returns what is remembered of a tarball, zero if nothing is. A
// damaged note is not overwritten: it was there to compare with.
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
		return tarball{}, fmt.Errorf("cache index %s: %w; remove it to take what the bucket has", path, err)
	}
	return t, nil
}

// pin is a tarball that is being fetched.
type pin struct {
	object string  // its key
	path   string  // of its file in the index
	known  tarball // what is remembered of it; without Tag: nothing
	stat   Stat
	ref    Ref // of who asked first
}

func (c *Cache) downloadTarball(ctx context.Context, b Bucket, p pin) (in Installed, err error) {
	if p.stat.Size <= 0 || p.stat.Size > MaxObject {
		return in, fmt.Errorf("%s: %w: it has %d bytes: want 1 to %d", b.URL(p.object), ErrUnsafe, p.stat.Size, int64(MaxObject))
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
		if err := t.run(ctx, patience(c.cfg.Patience)); err != nil {
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

// settleTarball compares a tarball with what it was when it was first seen,
// unpacks it, and puts it into place.
func (c *Cache) settleTarball(ctx context.Context, object *os.File, p pin, digest Digest, temp string) (Installed, error) {
	t, first := p.known, p.known.Tag == ""
	if !first && digest != t.SHA256 {
		return Installed{}, fmt.Errorf("%w: it has sha256 %v, and had %v when it was first seen, at %s; to accept it, remove %s",
			ErrChanged, digest, t.SHA256, t.Seen.Format(time.RFC3339), p.path)
	}
	var err error
	if t.Files, t.Links, err = unpackVenv(ctx, filepath.Join(temp, filesName), object, clustermanEntry); err != nil {
		return Installed{}, err
	}
	t.Tag, t.Size, t.SHA256 = p.stat.Tag, p.stat.Size, digest
	if first {
		t.Seen = time.Now().UTC()
	}
	data, err := json.Marshal(t)
	if err != nil {
		return Installed{}, err
	}
	if len(data) > maxRecord {
		return Installed{}, fmt.Errorf("%w: the list of its files is larger than %d bytes", ErrUnsafe, maxRecord)
	}
	in := c.installedTarball(t, p.ref)
	in.Pinned = first
	return in, c.folder.Locked(ctx, func() error { return c.install(ctx, temp, in, note{p.path, data}) })
}

// installedTarball returns where the files of a tarball are, or will be.
func (c *Cache) installedTarball(t tarball, ref Ref) Installed {
	in := c.installed(Manifest{
		Format: manifestFormat, Ref: ref, Platform: c.cfg.Platform, Created: t.Seen, Entry: clustermanEntry,
		Object: Object{Name: clustermanPrefix + ref.Version + clustermanSuffix, Size: t.Size, SHA256: t.SHA256},
		Files:  t.Files,
	})
	// -B: what Python would compile into the cache would change what was verified.
	in.Args = []string{"-B", "-m", "clusterman_signals.run"}
	in.links = t.Links
	return in
}

// offerTarballs adds to the refusal of a version that is not there which are.
func offerTarballs(ctx context.Context, b Bucket, codename string, ref Ref, err error) error {
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
		return fmt.Errorf("%w; there is no version of %s", err, codename)
	}
	return fmt.Errorf("%w; there are %s", err, nearest(versions, ref.Version))
}
