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

// maxRounds bounds how often a fetch starts over because the cache was collected
// under it.
const maxRounds = 5

// errGone: the files of a release are not in the cache any more.
var errGone = errors.New("removed from the cache")

// Fetch returns a release, verified, from the cache or by way of it from the
// bucket. If the bucket is unavailable and this very release was fetched from it
// before, that is returned, with the reason in Away; another version never is.
// What Trust does not admit, or what is yanked, is refused, from the cache too.
// Errors name the object's URL and the cause, and are told apart by the sentinels
// of this package. What is fetched by several at the same time is downloaded
// once.
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
	wait := c.cfg.Patience
	if uncached == nil {
		wait = min(wait, cachedPatience)
	}
	said, err := readWord(ctx, b, ref, c.cfg.Platform, patience(wait))
	switch {
	case err == nil:
		return c.obey(ctx, b, said, known)
	case !errors.Is(err, ErrUnavailable) || ctx.Err() != nil:
		return Installed{}, err
	case uncached != nil:
		return Installed{}, fmt.Errorf("%w; %w", err, uncached)
	}
	seen, alone, errSeen := c.learn(ctx, b, known, ref, Seen{})
	known.Yanked = seen.Yanked
	if refusal := cmp.Or(errSeen, known.admit(c.cfg.Trust)); refusal != nil {
		return Installed{}, fmt.Errorf("%w; %w", refusal, err)
	}
	in := c.installed(known.manifest)
	in.Away, in.Alone = err, alone
	return in, nil
}

// lookup returns what is remembered of a release from this bucket, if its files
// are here, verified.
func (c *Cache) lookup(ctx context.Context, b Bucket, ref Ref) (word, error) {
	w, err := c.index.lookup(b, ref)
	if err != nil {
		return word{}, err
	}
	in := c.installed(w.manifest)
	if err := in.verify(ctx); err != nil {
		return word{}, fmt.Errorf("cached in %s: %w", in.Dir, err)
	}
	return w, nil
}

// obey does what the bucket says: refuses the release, or brings it here. known
// is what the cache remembers of it, its files verified; zero if nothing.
func (c *Cache) obey(ctx context.Context, b Bucket, said, known word) (Installed, error) {
	ref := said.manifest.Ref
	url := b.URL(key(ref, c.cfg.Platform, manifestName))
	refusal := said.admit(c.cfg.Trust)
	seen, alone, err := c.learn(ctx, b, known, ref, Seen{Yanked: said.Yanked})
	if said.Yanked == nil && seen.Yanked != nil {
		said.Yanked = seen.Yanked
		refusal = fmt.Errorf("%w (its %s is gone from the bucket since)", seen.Yanked.err(), yankedName)
	}
	if err == nil && seen.Digest != (Digest{}) && seen.Digest != said.manifest.Object.SHA256 {
		err = changed(ref, said.seen(), seen)
	}
	if err := cmp.Or(refusal, err); err != nil {
		return Installed{}, errors.Join(fmt.Errorf("%s: %w", url, err), c.noteYank(ctx, b, said, known))
	}
	in, err := c.bring(ctx, b, said, known)
	if err != nil {
		return Installed{}, err
	}
	if in.Alone = alone; seen.Digest != (Digest{}) {
		return in, nil
	}
	seen, in.Alone, err = c.learn(ctx, b, word{}, ref, said.seen())
	if err == nil && seen.Digest != in.Digest { // another host was faster
		err = changed(ref, said.seen(), seen)
	}
	if err != nil {
		return Installed{}, fmt.Errorf("%s: %w", url, err)
	}
	return in, nil
}

// bring downloads the files of a release, unless they are here, verified.
func (c *Cache) bring(ctx context.Context, b Bucket, said, known word) (Installed, error) {
	in := c.installed(said.manifest)
	record, err := json.Marshal(said)
	if err != nil {
		return Installed{}, err
	}
	note := note{path: c.index.path(b, said.manifest.Ref), data: record}
	present := known.Raw != nil && known.manifest.Object == said.manifest.Object && known.manifest.sameContent(said.manifest)
	for range maxRounds {
		if !present {
			if present, err = in.intact(ctx); err != nil {
				return Installed{}, err
			}
		}
		if !present { // absent or damaged
			return in, c.download(ctx, b, in, note)
		}
		if err = c.index.remember(ctx, in, note); !errors.Is(err, errGone) {
			return in, err
		}
		present = false
	}
	return Installed{}, err
}

// noteYank makes the cache remember that a release that it has is yanked.
func (c *Cache) noteYank(ctx context.Context, b Bucket, said, known word) error {
	if said.Yanked == nil || known.Raw == nil {
		return nil
	}
	known.Yanked = said.Yanked
	record, err := json.Marshal(known)
	if err == nil {
		err = c.index.remember(ctx, c.installed(known.manifest), note{c.index.path(b, known.manifest.Ref), record})
	}
	if err != nil && !errors.Is(err, errGone) {
		return fmt.Errorf("remember the yank: %w", err)
	}
	return nil
}

// download puts the release's files into place: archive, digest, files,
// digests, sync, rename. Until the rename all of it is in a temporary folder,
// but for the archive, which another process may continue.
func (c *Cache) download(ctx context.Context, b Bucket, in Installed, n note) error {
	return c.folder.WithTemp(ctx, func(temp string) error {
		object, err := c.folder.OpenPartial(ctx, in.Digest.String(), temp, c.cfg.Patience)
		if err != nil {
			return err
		}
		defer object.Close() // gives the lock back
		t := newTransfer(b, in.Manifest, object, func(done, total int64) { c.cfg.Progress(in.Ref, done, total) })
		intact, err := in.intact(ctx) // another process may have been faster
		if err != nil {
			return err
		}
		if !intact {
			err := t.adopt(ctx)
			if err == nil {
				err = t.finish(ctx, patience(c.cfg.Patience))
			}
			if err != nil {
				continues := t.done > 0 && (errors.Is(err, ErrUnavailable) || ctx.Err() != nil)
				if !continues {
					os.Remove(object.Name()) // what stays is swept later
				}
				return err
			}
		}
		err = c.settle(ctx, object, in, n, temp)
		if err == nil || ctx.Err() == nil {
			os.Remove(object.Name())
		}
		if err != nil {
			return fmt.Errorf("%s: %w", t.bucket.URL(t.key), err)
		}
		return nil
	})
}

func (c *Cache) settle(ctx context.Context, object *os.File, in Installed, n note, temp string) error {
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

// newRoot makes a folder for the files of an archive, and goes to the archive's
// beginning.
func newRoot(dir string, archive *os.File) (*os.Root, error) {
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	return os.OpenRoot(dir)
}

// install renames the verified files in temp into place and notes them. If another
// process was faster, its files stay; damaged ones make room. The caller is in Locked.
func (c *Cache) install(ctx context.Context, temp string, in Installed, n note) error {
	intact, err := in.intact(ctx)
	if err != nil {
		return err
	}
	if intact {
		return c.index.write(n)
	}
	if _, err := os.Lstat(in.Dir); err == nil {
		if err := os.Rename(in.Dir, filepath.Join(temp, "damaged")); err != nil {
			return err
		}
	}
	if err := os.Rename(filepath.Join(temp, filesName), in.Dir); err != nil {
		return err
	}
	err = errors.Join(shareddir.Sync(filepath.Dir(in.Dir)), c.index.write(n))
	if err != nil { // without the note nobody would know of it
		return errors.Join(err, os.Rename(in.Dir, filepath.Join(temp, filesName)))
	}
	return nil
}
