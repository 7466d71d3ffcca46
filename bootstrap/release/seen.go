package release

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap/release/shareddir"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
)

const (
	seenName = "seen"  // folder of the first-seen records in a cache
	maxSeen  = 8 << 10 // bytes of the JSON form of a Seen
)

// Seen is the first-seen record of a version. It overrides what the bucket has later: a version keeps its content, and
// a yank stays.
type Seen struct {
	Digest Digest    `json:"sha256,omitzero"` // of the archive; zero: no archive accepted yet
	At     time.Time `json:"at,omitzero"`     // when Digest was first seen
	Yanked *Yanked   `json:"yanked,omitempty"`
	// Generation counts the calls of Forget.
	Generation int `json:"generation,omitempty"`
}

// Merge returns s with the additions of update. It replaces neither a digest nor a yank. An update with a higher
// generation replaces s.
func (s Seen) Merge(update Seen) Seen {
	if update.Generation > s.Generation {
		return update
	}
	if s.Digest == (Digest{}) {
		s.Digest, s.At = update.Digest, update.At
	}
	if s.Yanked == nil {
		s.Yanked = update.Yanked
	}
	return s
}

// DecodeSeen decodes the JSON form of a Seen, or returns ErrCorrupt.
func DecodeSeen(data []byte) (Seen, error) {
	var s Seen
	err := strictjson.Within(data, maxSeen, &s)
	if err == nil && s.Generation < 0 {
		err = fmt.Errorf("generation %d is negative", s.Generation)
	}
	if err == nil && s.Yanked != nil {
		err = s.Yanked.Validate()
	}
	if err != nil {
		return Seen{}, fmt.Errorf("%w: first-seen record of a version: %w", ErrCorrupt, err)
	}
	return s, nil
}

// SeenKey identifies a version in one bucket for one platform. A version in Clusterman's layout, which all its signals
// share, has the namespace "~clusterman" and its codename as name.
type SeenKey struct {
	Source   string // 16 hexadecimal digits of the digest of the bucket's URL
	Ref      Ref
	Platform Platform
}

func seenKey(b Bucket, ref Ref, p Platform) SeenKey { return SeenKey{sourceOf(b), ref, p} }

// forgetCommand returns the command that accepts other content of the version.
func (k SeenKey) forgetCommand() string {
	name := k.Ref.String()
	if k.Ref.Namespace == clustermanIndex { // one object has all signals of a version
		name = "NAMESPACE/NAME@" + k.Ref.Version
	}
	return fmt.Sprintf("%q", "weir release forget "+name)
}

// sourceOf returns the first 16 hexadecimal digits of the SHA-256 of a bucket's URL.
func sourceOf(b Bucket) string {
	source := sha256.Sum256([]byte(b.URL("")))
	return hex.EncodeToString(source[:8])
}

// String returns the key as one word of letters, digits and dots: SOURCE.DIGEST. DIGEST is the first 32 hexadecimal
// digits of the SHA-256 of ref and platform.
func (k SeenKey) String() string {
	of := sha256.Sum256([]byte(k.Ref.String() + " " + k.Platform.String()))
	return k.Source + "." + hex.EncodeToString(of[:16])
}

// SeenStore stores a Seen for each key permanently. Its methods may be called concurrently, also by several hosts.
type SeenStore interface {
	// Update merges update into the stored value and returns the result. A zero update only reads.
	Update(ctx context.Context, key SeenKey, update Seen) (Seen, error)
	// Forget starts the next generation with an empty record.
	Forget(ctx context.Context, key SeenKey) error
}

// seenFiles is the SeenStore in a cache's folder.
type seenFiles struct{ folder shareddir.Dir }

func (m seenFiles) path(k SeenKey) string {
	return filepath.Join(string(m.folder), seenName, k.Source, filepath.FromSlash(k.Ref.folder()), k.Platform.String()+".json")
}

// Update implements SeenStore.
func (m seenFiles) Update(ctx context.Context, k SeenKey, update Seen) (kept Seen, err error) {
	err = m.folder.Locked(ctx, func() error {
		before, err := m.read(k)
		if err != nil {
			return err
		}
		if kept = before.Merge(update); kept == before {
			return nil
		}
		return m.write(k, kept)
	})
	return kept, err
}

// Forget implements SeenStore. It also removes an unreadable record.
func (m seenFiles) Forget(ctx context.Context, k SeenKey) error {
	return m.folder.Locked(ctx, func() error {
		before, err := m.read(k)
		if err != nil && !errors.Is(err, ErrCorrupt) {
			return err
		}
		return m.write(k, Seen{Generation: before.Generation + 1})
	})
}

func (m seenFiles) read(k SeenKey) (Seen, error) {
	path := m.path(k)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Seen{}, nil
	}
	if err != nil {
		return Seen{}, err
	}
	kept, err := DecodeSeen(data)
	if err != nil {
		return Seen{}, fmt.Errorf("read %s: %w; compare the version with what its publisher published, then run %s", path, err, k.forgetCommand())
	}
	return kept, nil
}

func (m seenFiles) write(k SeenKey, s Seen) error {
	path := m.path(k)
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return m.folder.Write(path, data)
}

// updateSeen merges update into the cache's own record and the shared one, and returns the result. known is what the
// cache's index implies, for caches that were filled before first-seen records existed. If the shared store does not
// respond, sharedErr is the reason and only the cache's own record counts.
func (c *Cache) updateSeen(ctx context.Context, k SeenKey, known, update Seen) (kept Seen, sharedErr, err error) {
	if kept, err = c.seen.Update(ctx, k, Seen{}); err != nil {
		return Seen{}, nil, err
	}
	var shared Seen
	if c.cfg.Shared != nil {
		if shared, sharedErr = c.cfg.Shared.Update(ctx, k, Seen{}); shared.Generation > kept.Generation {
			kept = shared
		}
	}
	if kept == (Seen{}) {
		kept = known
	}
	if kept, err = c.seen.Update(ctx, k, kept.Merge(update)); err != nil || c.cfg.Shared == nil || sharedErr != nil {
		return kept, sharedErr, err
	}
	if shared, sharedErr = c.cfg.Shared.Update(ctx, k, kept); sharedErr != nil {
		return kept, sharedErr, nil
	}
	if kept.Digest != (Digest{}) && shared.Digest != kept.Digest {
		return kept, nil, changed(k, kept.Digest, shared)
	}
	kept, err = c.seen.Update(ctx, k, shared)
	return kept, nil, err
}

// changed returns the error for a version whose content differs from the first-seen one.
func changed(k SeenKey, now Digest, first Seen) error {
	return fmt.Errorf("%w: it has sha256 %v, and had %v when it was first seen, at %s; publish a new version, or accept this one with %s",
		ErrChanged, now, first.Digest, first.At.Format(time.RFC3339), k.forgetCommand())
}

// Yanked returns the yank of a version, from the bucket or from the first-seen record; nil if it is not yanked. It
// records the yank.
func (c *Cache) Yanked(ctx context.Context, b Bucket, ref Ref) (*Yanked, error) {
	if err := ref.Validate(); err != nil {
		return nil, err
	}
	yanked, err := readYanked(ctx, b, ref, c.cfg.Platform, retryTimeout(cachedRetryTimeout))
	if err != nil && !errors.Is(err, ErrUnavailable) {
		return nil, err
	}
	kept, _, errSeen := c.updateSeen(ctx, seenKey(b, ref, c.cfg.Platform), Seen{}, Seen{Yanked: yanked})
	if kept.Yanked != nil {
		return kept.Yanked, nil
	}
	return nil, errors.Join(err, errSeen)
}

// Forget removes the first-seen record of a version, here and in the shared store. The next fetch accepts the bucket's
// content.
func (c *Cache) Forget(ctx context.Context, b Bucket, ref Ref) error {
	return c.forget(ctx, seenKey(b, ref, c.cfg.Platform), ref)
}

func (c *Cache) forget(ctx context.Context, k SeenKey, ref Ref) error {
	err := c.seen.Forget(ctx, k)
	if c.cfg.Shared != nil {
		err = errors.Join(err, c.cfg.Shared.Forget(ctx, k))
	}
	if err != nil {
		return fmt.Errorf("forget the first-seen record of %s: %w", ref, err)
	}
	return nil
}
