package release

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxVenvPaths bounds the files, links and folders of a tarball without a manifest, including implied folders. A
// virtual environment has thousands.
const maxVenvPaths = 100_000

// venv is a tarball that is unpacked without a manifest.
type venv struct {
	root    *os.Root
	files   map[string]File
	links   map[string]link
	folders map[string]bool
	left    int64 // bytes that may still be unpacked
}

// unpackVenv unpacks a tarball into a new folder, syncs it, and returns its content. The tarball must contain only
// regular files, folders, and links that [links.check] accepts, each once; otherwise the error is ErrUnsafe. An invalid
// tarball is ErrCorrupt. It stops when ctx ends.
func unpackVenv(ctx context.Context, dir string, archive *os.File, entry string) ([]File, links, error) {
	root, err := newRoot(dir, archive)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	files, made, err := readVenv(ctx, archive, root, entry)
	if err != nil {
		return nil, nil, err
	}
	synced, err := os.Open(dir)
	if err != nil {
		return nil, nil, err
	}
	defer synced.Close()
	return files, made, unix.Syncfs(int(synced.Fd())) // one call: there are thousands of files
}

func readVenv(ctx context.Context, archive io.Reader, root *os.Root, entry string) ([]File, links, error) {
	gz, err := gzip.NewReader(endingReader{ctx, archive})
	if err != nil {
		return nil, nil, brokenArchive(ctx, err)
	}
	v := &venv{root: root, files: map[string]File{}, links: map[string]link{}, folders: map[string]bool{}, left: maxUnpacked}
	r := tar.NewReader(io.LimitReader(gz, maxUnpacked+maxVenvPaths*tarOverhead))
	for {
		header, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) { // unpackEntry returns a better error
			return nil, nil, brokenArchive(ctx, err)
		}
		if err := v.unpackEntry(ctx, header, r); err != nil {
			return nil, nil, markPathConflict(err)
		}
	}
	made := links(slices.SortedFunc(maps.Values(v.links), func(a, b link) int { return strings.Compare(a.Path, b.Path) }))
	if err := made.check(entry); err != nil {
		return nil, nil, err
	}
	files := slices.SortedFunc(maps.Values(v.files), func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	end, absolute, _ := made.follow(entry) // check has followed it already
	if file, ok := v.files[end]; !absolute && (!ok || file.Mode != Executable) {
		return nil, nil, fmt.Errorf("%w: archive: %s is not an executable in it", ErrCorrupt, entry)
	}
	return files, made, markPathConflict(made.make(ctx, root))
}

// unpackEntry unpacks a file or folder, and collects links for later: while files are written, no path leads through a
// link.
func (v *venv) unpackEntry(ctx context.Context, header *tar.Header, r io.Reader) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if header.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	p := path.Clean(header.Name)
	if p == "." && header.Typeflag == tar.TypeDir {
		return nil
	}
	_, file := v.files[p]
	_, linked := v.links[p]
	switch {
	case !safePath(p):
		return fmt.Errorf("%w: archive: path %.100q leads outside its folder or is too deep", ErrUnsafe, header.Name)
	case file || linked:
		return fmt.Errorf("%w: archive: %.100q appears twice", ErrUnsafe, p)
	case v.count(p, header.Typeflag) > maxVenvPaths:
		return fmt.Errorf("%w: archive: more than %d files, links and folders", ErrUnsafe, maxVenvPaths)
	}
	switch header.Typeflag {
	case tar.TypeDir:
		return v.root.MkdirAll(p, 0o755)
	case tar.TypeSymlink:
		v.links[p] = link{p, header.Linkname}
		return nil
	case tar.TypeReg:
		return v.write(ctx, p, header, r)
	}
	return fmt.Errorf("%w: archive: %.100q is neither a file nor a folder nor a symbolic link (type %q)", ErrUnsafe, p, header.Typeflag)
}

// count returns the number of paths including a new one, and records the folders that it implies.
func (v *venv) count(p string, kind byte) int {
	dir, own := path.Dir(p), 1
	if kind == tar.TypeDir {
		dir, own = p, 0
	}
	for ; dir != "." && !v.folders[dir]; dir = path.Dir(dir) {
		v.folders[dir] = true
	}
	return len(v.files) + len(v.links) + len(v.folders) + own
}

// write unpacks a file and keeps its modification time: Python uses it to check its compiled files.
func (v *venv) write(ctx context.Context, p string, header *tar.Header, r io.Reader) error {
	if header.Size < 0 || header.Size > v.left {
		return fmt.Errorf("%w: archive: more than %d bytes", ErrUnsafe, int64(maxUnpacked))
	}
	v.left -= header.Size
	file := File{Path: p, Size: header.Size, Mode: modeOf(fs.FileMode(header.Mode))}
	f, n, digest, err := writeFile(ctx, r, file, v.root)
	if err != nil {
		return fmt.Errorf("unpack %s: %w", p, err)
	}
	defer f.Close()
	if n != file.Size {
		return fmt.Errorf("%w: archive: %s is truncated", ErrCorrupt, p)
	}
	file.SHA256 = digest
	v.files[p] = file
	if year := header.ModTime.Year(); year < 1970 || year > 2100 {
		return nil
	}
	return v.root.Chtimes(p, time.Time{}, header.ModTime)
}

// markPathConflict wraps the error of a path that is both a file and a folder in ErrUnsafe.
func markPathConflict(err error) error {
	if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR) {
		return fmt.Errorf("%w: archive: a path is both a file and a folder: %w", ErrUnsafe, err)
	}
	return err
}
