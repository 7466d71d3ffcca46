package release

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxSealed is the size up to which an executable is copied into memory.
const maxSealed = 256 << 20

// Installed is a release in the cache, as it was when its files were verified.
type Installed struct {
	Ref    Ref
	Digest Digest // of the archive
	Dir    string // absolute; holds the files
	Entry  string // path in Dir of the executable to start
	// Args come between the executable and the signal's own NAMESPACE NAME APP.
	// If there are any, the process is to be started in Dir, and its argv[0] is
	// to be the path of the entry, by which the interpreter finds its libraries.
	Args     []string
	Manifest Manifest
	// Pinned: nobody vouches for this digest. It was taken on trust just now, as
	// the first that was seen of this version.
	Pinned bool
	// Away is why the bucket did not answer, if the release comes from the
	// cache without its word; else nil.
	Away error
	// Alone is why the shared memory of first seen versions did not answer, so that only
	// that of this cache counted; else nil.
	Alone error

	links links // of a tarball; else none
}

// Open opens a file of the release, Entry as a rule, hashes it through the
// descriptor and returns it at its beginning: what is executed as /proc/self/fd/N
// is what was verified. The only file of a release, up to 256 MiB, is given as a
// sealed copy in memory, which nobody can change any more: the descriptor may be
// kept, and executed many times. A larger one, and one of several, which finds
// its fellows by its path, is the file itself, which is made read-only; it is as
// safe as the folder's permissions. ErrNotFound if the manifest has no such
// file, ErrCorrupt if its bytes are others.
//
// The entry of a virtual environment is a link to an interpreter of this
// machine: that is opened, and not verified, for nobody says what it should be.
// Open looks at no other file: see Verify.
func (in Installed) Open(path string) (*os.File, error) {
	f, err := in.open(path)
	if err != nil {
		return nil, fmt.Errorf("open release %s in %s: %w", in.Ref, in.Dir, err)
	}
	return f, nil
}

func (in Installed) open(path string) (*os.File, error) {
	path, absolute, err := in.links.follow(path)
	if err != nil {
		return nil, err
	}
	if absolute {
		return openInterpreter(path)
	}
	file, ok := in.Manifest.file(path)
	if !ok {
		return nil, fmt.Errorf("%s: %w in the release", path, ErrNotFound)
	}
	root, err := os.OpenRoot(in.Dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if len(in.Manifest.Files) == 1 && file.Size <= maxSealed {
		f, err := openSealed(root, file)
		if !errors.Is(err, errors.ErrUnsupported) {
			return f, err
		}
	}
	return openLocked(root, file)
}

// openSealed copies a file into memory, verifies the copy and seals it.
// ErrUnsupported if the kernel does not let memory be executed.
func openSealed(root *os.Root, file File) (*os.File, error) {
	f, err := openMode(root, file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sealed, err := newMemory("weir-" + filepath.Base(file.Path))
	if err != nil {
		return nil, err
	}
	if err = compare(file, f, sealed); err == nil {
		err = sealed.Chmod(os.FileMode(file.Mode) &^ 0o222)
	}
	if err == nil {
		_, err = unix.FcntlInt(sealed.Fd(), unix.F_ADD_SEALS,
			unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err == nil {
		_, err = sealed.Seek(0, io.SeekStart)
	}
	if err != nil {
		sealed.Close()
		return nil, err
	}
	return sealed, nil
}

// newMemory returns an empty file in memory that can be executed.
func newMemory(name string) (*os.File, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	name = name[:min(len(name), 200)] // the kernel takes 249 bytes
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_EXEC)
	if err == unix.EINVAL { // before Linux 6.3 all could be executed
		fd, err = unix.MemfdCreate(name, flags)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: memory file: %w", errors.ErrUnsupported, err)
	}
	return os.NewFile(uintptr(fd), "memfd:"+name), nil
}

// openLocked opens a file, takes away the permission to write it, and verifies
// it.
func openLocked(root *os.Root, file File) (*os.File, error) {
	f, err := openMode(root, file)
	if err != nil {
		return nil, err
	}
	// In vain if the cache is somebody else's: then it is theirs to protect.
	if err := f.Chmod(os.FileMode(file.Mode) &^ 0o222); err != nil && !errors.Is(err, os.ErrPermission) && !errors.Is(err, unix.EROFS) {
		f.Close()
		return nil, err
	}
	if err = compare(file, f, io.Discard); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// openMode opens a regular file and compares its permission with the manifest's;
// that to write it may be gone.
func openMode(root *os.Root, file File) (*os.File, error) {
	f, info, err := openRegular(root, file.Path)
	if err != nil {
		return nil, err
	}
	want := os.FileMode(file.Mode)
	if perm := info.Mode().Perm(); perm != want && perm != want&^0o222 {
		f.Close()
		return nil, fmt.Errorf("%w: %s has mode %v, the manifest says %v", ErrCorrupt, file.Path, Mode(perm), file.Mode)
	}
	return f, nil
}

// compare copies what r holds to w, and compares it with the manifest: ErrCorrupt.
func compare(file File, r io.Reader, w io.Writer) error {
	hash := sha256.New()
	buf := make([]byte, min(file.Size+1, 256<<10))
	n, err := io.CopyBuffer(io.MultiWriter(w, hash), io.LimitReader(r, file.Size+1), buf)
	if err != nil {
		return err
	}
	return matches(file, n, Digest(hash.Sum(nil)))
}

// Verify reads every file of the release, and every link of a tarball, and
// compares them with what they were when they were fetched: ErrCorrupt if one is
// missing or another, or the cause of ctx if that ends before. It is for what runs
// from Dir: a release of several files, and all of Clusterman, before each start;
// what Open gives sealed cannot change, and needs no more. It takes as long as
// hashing all files does. If it is ErrCorrupt, Fetch repairs it.
//
// Three things it cannot promise. An interpreter of this machine, and what that
// brings along, is not verified. Neither is what else is in Dir, where an
// interpreter may keep files of its own. And who may write to Dir, as any process
// of the same user may, can do so after Verify has looked: run signals as a user
// who does not own the cache where that matters.
func (in Installed) Verify(ctx context.Context) error {
	err := in.verify(ctx)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case !errors.Is(err, ErrCorrupt) && isAnother(err):
		err = fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return fmt.Errorf("verify release %s in %s: %w", in.Ref, in.Dir, err)
}

// isAnother reports whether an error of opening a file or reading a link means
// that another kind of thing is there, or nothing, or that the way leads out.
func isAnother(err error) bool {
	number, ok := errors.AsType[syscall.Errno](err)
	return !ok || slices.Contains([]syscall.Errno{unix.ENOENT, unix.ENOTDIR, unix.EINVAL, unix.ELOOP, unix.ENXIO}, number)
}

// intact reports whether verify finds nothing. The error is that ctx has ended,
// which says nothing of the files.
func (in Installed) intact(ctx context.Context) (bool, error) {
	err := in.verify(ctx)
	if err != nil && ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	return err == nil, nil
}

// verify is Verify, with all errors as they come.
func (in Installed) verify(ctx context.Context) error {
	root, err := os.OpenRoot(in.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, file := range in.Manifest.Files {
		f, err := openMode(root, file)
		if err != nil {
			return err
		}
		err = compare(file, endingReader{ctx, f}, io.Discard)
		f.Close()
		if err != nil {
			return err
		}
	}
	return in.links.verify(ctx, root)
}
