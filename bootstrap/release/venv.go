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

// maxVenvPaths bounds the files, links and folders of a tarball that has no
// manifest, those too that only paths name: a virtual environment has thousands.
const maxVenvPaths = 100_000

// venv is a tarball that is unpacked without a manifest.
type venv struct {
	root    *os.Root
	files   map[string]File
	links   map[string]link
	folders map[string]bool
	left    int64 // bytes that may still come
}

// unpackVenv unpacks a tarball into a new folder, syncs it, and returns what is
// in it. It must hold regular files, folders, and links that [links.check]
// admits, each once: ErrUnsafe; ErrCorrupt if it is none. It ends with ctx.
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
	v := &venv{root: root, files: map[string]File{}, links: map[string]link{}, folders: map[string]bool{}, left: MaxUnpacked}
	r := tar.NewReader(io.LimitReader(gz, MaxUnpacked+maxVenvPaths*tarOverhead))
	for {
		header, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) { // take says it better
			return nil, nil, brokenArchive(ctx, err)
		}
		if err := v.take(ctx, header, r); err != nil {
			return nil, nil, clash(err)
		}
	}
	made := links(slices.SortedFunc(maps.Values(v.links), func(a, b link) int { return strings.Compare(a.Path, b.Path) }))
	if err := made.check(entry); err != nil {
		return nil, nil, err
	}
	files := slices.SortedFunc(maps.Values(v.files), func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	end, absolute, _ := made.follow(entry) // check has followed it
	if file, ok := v.files[end]; !absolute && (!ok || file.Mode != Executable) {
		return nil, nil, fmt.Errorf("%w: archive: %s is not an executable in it", ErrCorrupt, entry)
	}
	return files, made, clash(made.make(ctx, root))
}

// take unpacks one file or folder, and keeps links for the end: while files are
// written, no path leads through a link.
func (v *venv) take(ctx context.Context, header *tar.Header, r io.Reader) error {
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
		return fmt.Errorf("%w: archive: path %.100q leads out of its folder, or too deep", ErrUnsafe, header.Name)
	case file || linked:
		return fmt.Errorf("%w: archive: %.100q comes twice", ErrUnsafe, p)
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

// count returns how many paths there are with a new one, and notes the folders
// that it takes.
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

// write unpacks a file. Its time of change is kept: Python tells by it whether
// what it has compiled is current.
func (v *venv) write(ctx context.Context, p string, header *tar.Header, r io.Reader) error {
	if header.Size < 0 || header.Size > v.left {
		return fmt.Errorf("%w: archive: more than %d bytes", ErrUnsafe, int64(MaxUnpacked))
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

// clash marks the error of a path that is a file here and a folder there.
func clash(err error) error {
	if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR) {
		return fmt.Errorf("%w: archive: a path is two things: %w", ErrUnsafe, err)
	}
	return err
}
