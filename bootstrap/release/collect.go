package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
)

const (
	maxOwner = 200      // bytes of an owner's name
	maxPlan  = 16 << 20 // bytes of a plan in use
)

// plan is a file of the index: the releases that an owner runs. Collect keeps them.
type plan struct {
	Owner string `json:"owner"`
	Refs  []Ref  `json:"refs"`
}

// Use records the releases that a pool, or another owner of this cache, intends to run. Collect by any process does not
// remove them. The list replaces the owner's previous one; an empty list removes the owner. Call it before Fetch, with
// the releases that still run and those that will run, and again after a release has stopped.
func (c *Cache) Use(ctx context.Context, owner string, refs []Ref) error {
	path, err := c.index.planPath(owner)
	if err != nil {
		return err
	}
	data, err := json.Marshal(plan{owner, refs})
	if err != nil {
		return err
	}
	err = c.folder.Locked(ctx, func() error {
		if len(refs) > 0 {
			return c.index.write(indexEntry{path, data})
		}
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("record the releases that %s uses: %w", owner, classifyLocal(err))
	}
	return nil
}

func (x index) planPath(owner string) (string, error) {
	name := url.PathEscape(owner) + ".json"
	if owner == "" || len(name) > maxOwner {
		return "", fmt.Errorf("owner %.100q: want a name of up to %d bytes", owner, maxOwner)
	}
	return filepath.Join(x.dir(), plansName, name), nil
}

// Collected reports what Collect removed.
type Collected struct {
	Releases []Digest // digests of the removed archives
	Bytes    int64    // total size of the removed files
}

// Collect removes releases that are not in keep, not recorded by Use, and not fetched for olderThan. It also removes
// partial downloads that were not continued. A release stays as long as one of its versions does. Collect may run at
// any time, in any number of processes that share the cache. A concurrent Fetch still returns an existing release, and
// recorded releases stay.
//
// If a plan cannot be read, Collect removes nothing.
func (c *Cache) Collect(ctx context.Context, keep []Ref, now time.Time, olderThan time.Duration) (Collected, error) {
	var done Collected
	err := c.folder.WithTemp(ctx, func(temp string) error { // folders that are renamed into it are removed, also after a crash
		return c.folder.Locked(ctx, func() error {
			named, err := c.index.named(keep)
			if err != nil {
				return err
			}
			live, err := c.index.collect(ctx, named, now.Add(-olderThan))
			if err != nil {
				return err
			}
			err = c.collectFiles(ctx, live, now.Add(-olderThan), func(path string, digest Digest) error {
				done.Bytes += bytesIn(path)
				done.Releases = append(done.Releases, digest)
				return os.Rename(path, filepath.Join(temp, filepath.Base(path)))
			})
			return errors.Join(err, c.folder.SweepPartials(now))
		})
	})
	if err != nil {
		return done, fmt.Errorf("collect the release cache: %w", err)
	}
	return done, nil
}

// refSet is a set of releases. Tarballs are in it by version only.
type refSet struct {
	refs     map[Ref]bool
	versions map[string]bool
}

func (s refSet) add(refs []Ref) {
	for _, ref := range refs {
		s.refs[ref] = true
		s.versions[ref.Version] = true
	}
}

func (x index) named(keep []Ref) (refSet, error) {
	set := refSet{map[Ref]bool{}, map[string]bool{}}
	set.add(keep)
	dir := filepath.Join(x.dir(), plansName)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return set, err
	}
	for _, entry := range entries {
		data, err := readIndex(filepath.Join(dir, entry.Name()))
		var p plan
		if err == nil {
			err = strictjson.Within(data, maxPlan, &p)
		}
		if err != nil {
			return set, fmt.Errorf("plan in use %s: %w", filepath.Join(dir, entry.Name()), err)
		}
		set.add(p.Refs)
	}
	return set, nil
}

// collect removes index entries of releases that may be removed, and returns the archives of the others.
func (x index) collect(ctx context.Context, named refSet, before time.Time) (map[Digest]bool, error) {
	live := map[Digest]bool{}
	index := x.dir()
	var folders []string
	err := filepath.WalkDir(index, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path == index {
			return fs.SkipAll // no release was fetched yet
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if entry.IsDir() {
			if path == filepath.Join(index, plansName) {
				return fs.SkipDir
			}
			folders = append(folders, path)
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		digest, stays := inspect(index, path, named)
		if stays || info.ModTime().After(before) {
			live[digest] = true
			return nil
		}
		return os.Remove(path)
	})
	for i := len(folders) - 1; i > 0; i-- { // children first; the index itself stays
		os.Remove(folders[i]) // fails unless the folder is empty
	}
	return live, err
}

// inspect reads a file of the index and returns the digest of its archive and whether a plan or keep lists its release.
// An unreadable file counts as not listed.
func inspect(index, path string, named refSet) (digest Digest, stays bool) {
	data, err := readIndex(path)
	if err != nil {
		return Digest{}, false
	}
	rest, _ := strings.CutPrefix(path, index+string(filepath.Separator))
	if parts := strings.Split(rest, string(filepath.Separator)); len(parts) > 1 && parts[1] == clustermanIndex {
		t, err := decode[tarball](data, maxRecord, "")
		return t.SHA256, err == nil && named.versions[t.Version]
	}
	var w bucketRecord
	var m Manifest
	if strictjson.Within(data, maxRecord, &w) != nil || strictjson.Within(w.Raw, maxManifest, &m) != nil {
		return Digest{}, false
	}
	return m.Object.SHA256, named.refs[m.Ref]
}

// collectFiles calls remove for the folders of releases that are not live.
func (c *Cache) collectFiles(ctx context.Context, live map[Digest]bool, before time.Time, remove func(string, Digest) error) error {
	entries, err := os.ReadDir(c.cfg.Dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		text, ok := strings.CutPrefix(entry.Name(), filesPrefix)
		var digest Digest
		if !ok || digest.UnmarshalText([]byte(text)) != nil || live[digest] {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if info.ModTime().After(before) {
			continue
		}
		if err := remove(filepath.Join(c.cfg.Dir, entry.Name()), digest); err != nil {
			return err
		}
	}
	return nil
}

func bytesIn(dir string) (total int64) {
	filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
		return nil
	})
	return total
}
