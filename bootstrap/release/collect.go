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

	"github.com/weirkeeper/weirkeeper/internal/strictjson"
)

const (
	maxOwner = 200      // bytes of an owner's name
	maxPlan  = 16 << 20 // bytes of a plan in use
)

// plan is a file of the index: what one owner runs, and so must stay.
type plan struct {
	Owner string `json:"owner"`
	Refs  []Ref  `json:"refs"`
}

// Use notes which releases a pool, or whoever else shares this cache, means to
// run: Collect does not remove them, whoever calls it. It replaces what the same
// owner noted before; without releases the owner is forgotten. Call it before
// Fetch, with what runs still and what shall run, and again when something has
// stopped.
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
			return c.index.write(note{path, data})
		}
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("note what %s uses: %w", owner, classifyLocal(err))
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

// Collected is what Collect removed.
type Collected struct {
	Releases []Digest // of their archives
	Bytes    int64    // of their files
}

// Collect removes from the cache what is neither in keep nor noted by Use, and
// was not fetched for that long, and the beginnings of downloads that nobody
// continued. A release of several versions stays as long as one of them does. It
// may be called at any time, by any number of processes that share the cache: a
// Fetch that runs at the same time gives a release that is there, and one that
// was noted before stays. With the note of a tarball of Clusterman goes the
// memory of what it was when it was first seen.
//
// If a plan in use cannot be read, nothing is removed.
func (c *Cache) Collect(ctx context.Context, keep []Ref, now time.Time, olderThan time.Duration) (Collected, error) {
	var done Collected
	err := c.folder.WithTemp(ctx, func(temp string) error { // what is renamed into it is gone, also after a crash
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

// refSet is a set of releases; of tarballs, by their version alone.
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

// collect removes what the index remembers of releases that may go, and
// returns the archives of the others.
func (x index) collect(ctx context.Context, named refSet, before time.Time) (map[Digest]bool, error) {
	live := map[Digest]bool{}
	index := x.dir()
	var folders []string
	err := filepath.WalkDir(index, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path == index {
			return fs.SkipAll // nothing was fetched yet
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
	for i := len(folders) - 1; i > 0; i-- { // those below first; the index itself stays
		os.Remove(folders[i]) // in vain unless it is empty
	}
	return live, err
}

// inspect reads a file of the index: of which archive it is, and whether that is
// named. One that cannot be read names nothing.
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
	var w word
	var m Manifest
	if strictjson.Within(data, maxRecord, &w) != nil || strictjson.Within(w.Raw, MaxManifest, &m) != nil {
		return Digest{}, false
	}
	return m.Object.SHA256, named.refs[m.Ref]
}

// collectFiles gives remove the folders of releases that are not live.
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
