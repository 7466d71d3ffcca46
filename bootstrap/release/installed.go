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

// maxSealed is the maximum size of an executable that is copied into memory, in bytes.
const maxSealed = 256 << 20

// Installed is a release in the cache whose files were verified when it was returned.
type Installed struct {
	Ref    Ref
	Digest Digest // of the archive
	Dir    string // absolute path of the folder with the files
	Entry  string // executable to start: path in Dir
	// Args are inserted between the executable and the signal's own NAMESPACE NAME APP. If there are any, start the
	// process in Dir, with the path of the entry as argv[0], by which the interpreter finds its libraries.
	Args     []string
	Manifest Manifest
	// Pinned reports that the digest was accepted without proof, as the first one seen of this version.
	Pinned bool
	// BucketErr is why the bucket did not respond, if the release comes from the cache without its confirmation; else
	// nil.
	BucketErr error
	// SharedErr is why the shared SeenStore did not respond, so that only the cache's own records counted; else nil.
	SharedErr error

	links links // of a tarball; else empty
}

// Open opens a file of the release, usually Entry, hashes it through the descriptor and returns it at offset 0. So what
// is executed as /proc/self/fd/N is what was verified. If the release has a single file of up to 256 MiB, Open returns
// a sealed copy in memory. It cannot change, so the descriptor may be executed many times. Otherwise Open returns the
// file itself, made read-only. That is as safe as the folder's permissions. Open returns ErrNotFound if the manifest
// does not list the file, and ErrCorrupt if its bytes differ.
//
// The entry of a virtual environment is a link to an interpreter of this machine. Open opens the interpreter and does
// not verify it, because there is nothing to compare it with. Open checks no other file: see Verify.
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

// openSealed copies a file into memory, verifies the copy and seals it. It returns ErrUnsupported if the kernel does
// not allow memory files to be executed.
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

// newMemory returns an empty executable file in memory.
func newMemory(name string) (*os.File, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	name = name[:min(len(name), 200)] // the kernel accepts 249 bytes
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_EXEC)
	if err == unix.EINVAL { // before Linux 6.3 all memory files are executable
		fd, err = unix.MemfdCreate(name, flags)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: memory file: %w", errors.ErrUnsupported, err)
	}
	return os.NewFile(uintptr(fd), "memfd:"+name), nil
}

// openLocked opens a file, removes its write permission, and verifies it.
func openLocked(root *os.Root, file File) (*os.File, error) {
	f, err := openMode(root, file)
	if err != nil {
		return nil, err
	}
	// It fails if another user owns the cache. Then that user must protect it.
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

// openMode opens a regular file and compares its permission with the manifest. The write permission may be missing.
func openMode(root *os.Root, file File) (*os.File, error) {
	f, info, err := openRegular(root, file.Path)
	if err != nil {
		return nil, err
	}
	want := os.FileMode(file.Mode)
	if perm := info.Mode().Perm(); perm != want && perm != want&^0o222 {
		f.Close()
		return nil, fmt.Errorf("%w: %s has mode %v, the manifest lists %v", ErrCorrupt, file.Path, Mode(perm), file.Mode)
	}
	return f, nil
}

// compare copies r to w and returns ErrCorrupt if the content differs from the manifest.
func compare(file File, r io.Reader, w io.Writer) error {
	hash := sha256.New()
	buf := make([]byte, min(file.Size+1, 256<<10))
	n, err := io.CopyBuffer(io.MultiWriter(w, hash), io.LimitReader(r, file.Size+1), buf)
	if err != nil {
		return err
	}
	return matches(file, n, Digest(hash.Sum(nil)))
}

// Verify reads every file of the release, and every link of a tarball, and compares them with their state when they
// were fetched. It returns ErrCorrupt if one is missing or different, and the cause of ctx if ctx ends first. After
// ErrCorrupt, Fetch repairs the release. Call it before each start of something that runs from Dir: a release of
// several files, or a Clusterman version. A sealed copy from Open needs no Verify. Verify takes as long as hashing all
// files.
//
// It has three limits. It does not verify an interpreter of this machine and its libraries. It ignores additional files
// in Dir, where an interpreter may keep its own. And any process of the same user can change Dir after Verify. If that
// matters, run signals as users that do not own the cache: see AllowUser.
func (in Installed) Verify(ctx context.Context) error {
	err := in.verify(ctx)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case !errors.Is(err, ErrCorrupt) && isReplaced(err):
		err = fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return fmt.Errorf("verify release %s in %s: %w", in.Ref, in.Dir, err)
}

// isReplaced reports whether an error of opening a file or reading a link means that the path is missing, is of another
// kind, or leads outside.
func isReplaced(err error) bool {
	number, ok := errors.AsType[syscall.Errno](err)
	return !ok || slices.Contains([]syscall.Errno{unix.ENOENT, unix.ENOTDIR, unix.EINVAL, unix.ELOOP, unix.ENXIO}, number)
}

// intact reports whether verify succeeds. The error is the cause of ctx if ctx has ended, which implies nothing about
// the files.
func (in Installed) intact(ctx context.Context) (bool, error) {
	err := in.verify(ctx)
	if err != nil && ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	return err == nil, nil
}

// verify is Verify without classified errors.
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
