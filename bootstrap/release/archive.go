package release

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"syscall"
)

// tarOverhead bounds the bytes of headers and padding that an archive may hold for each file.
const tarOverhead = 8 << 10

// pack writes the files at these paths below root as an archive, and returns what it wrote. The archive depends only on
// paths, permissions and bytes.
func pack(w io.Writer, root *os.Root, paths []string) ([]File, error) {
	gz, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	archive := tar.NewWriter(gz)
	files := make([]File, 0, len(paths))
	for _, p := range paths {
		file, err := packFile(archive, root, p)
		if err != nil {
			return nil, fmt.Errorf("pack %s: %w", p, err)
		}
		files = append(files, file)
	}
	return files, errors.Join(archive.Close(), gz.Close())
}

func packFile(archive *tar.Writer, root *os.Root, p string) (File, error) {
	f, info, err := openRegular(root, p)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	file := File{Path: p, Size: info.Size(), Mode: modeOf(info.Mode())}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: p, Size: file.Size, Mode: int64(file.Mode), Format: tar.FormatPAX}
	if err := archive.WriteHeader(header); err != nil {
		return File{}, err
	}
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(archive, hash), io.LimitReader(f, file.Size))
	if err != nil {
		return File{}, err
	}
	if n != file.Size {
		return File{}, errors.New("the file shrank while it was read")
	}
	hash.Sum(file.SHA256[:0])
	return file, nil
}

// openRegular opens a regular file for reading. Anything else is ErrUnsafe; opening a pipe does not block.
func openRegular(root *os.Root, p string) (*os.File, os.FileInfo, error) {
	f, err := root.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s is not a regular file", ErrUnsafe, p)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// unpack writes the files of an archive below root and syncs them. The archive must contain exactly the manifest's
// files. A missing or different file is ErrCorrupt; any additional entry is ErrUnsafe.
func unpack(ctx context.Context, r io.Reader, m Manifest, root *os.Root) error {
	gz, err := gzip.NewReader(endingReader{ctx, r})
	if err != nil {
		return brokenArchive(ctx, err)
	}
	limit := m.unpacked() + int64(len(m.Files)+1)*tarOverhead
	archive := tar.NewReader(io.LimitReader(gz, limit))
	missing := make(map[string]File, len(m.Files))
	for _, f := range m.Files {
		missing[f.Path] = f
	}
	for {
		header, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) { // admit returns a better error
			return brokenArchive(ctx, err)
		}
		file, err := admit(header, missing)
		if err != nil {
			return err
		}
		delete(missing, file.Path)
		if err := unpackFile(ctx, archive, file, root); err != nil {
			return fmt.Errorf("unpack %s: %w", file.Path, err)
		}
	}
	for p := range missing {
		return fmt.Errorf("%w: archive: %d files are missing, %s one of them", ErrCorrupt, len(missing), p)
	}
	return nil
}

// endingReader returns the cause of its context as an error after the context has ended.
type endingReader struct {
	ctx context.Context
	io.Reader
}

func (r endingReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.Reader.Read(p)
}

// brokenArchive returns the cause of ctx if ctx has ended, and ErrCorrupt with err otherwise.
func brokenArchive(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: archive: %w", ErrCorrupt, err)
}

// admit returns the file of the manifest that a header describes. It returns an error if the file must not be unpacked.
func admit(header *tar.Header, missing map[string]File) (File, error) {
	if !safePath(header.Name) {
		return File{}, fmt.Errorf("%w: archive: path %.100q leads outside its folder or is too deep", ErrUnsafe, header.Name)
	}
	if header.Typeflag != tar.TypeReg {
		return File{}, fmt.Errorf("%w: archive: %.100q is not a regular file (type %q)", ErrUnsafe, header.Name, header.Typeflag)
	}
	file, ok := missing[header.Name]
	if !ok {
		return File{}, fmt.Errorf("%w: archive: %.100q is not in the manifest, or appears twice", ErrUnsafe, header.Name)
	}
	if header.Size != file.Size {
		return File{}, fmt.Errorf("%w: archive: %s has %d bytes, the manifest lists %d", ErrCorrupt, file.Path, header.Size, file.Size)
	}
	return file, nil
}

func unpackFile(ctx context.Context, r io.Reader, file File, root *os.Root) error {
	f, n, digest, err := writeFile(ctx, r, file, root)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := matches(file, n, digest); err != nil {
		return err
	}
	return f.Sync()
}

func writeFile(ctx context.Context, r io.Reader, file File, root *os.Root) (f *os.File, n int64, digest Digest, err error) {
	if dir := path.Dir(file.Path); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return nil, 0, digest, err
		}
	}
	f, err = root.OpenFile(file.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, 0, digest, err
	}
	hash := sha256.New()
	n, err = io.Copy(io.MultiWriter(f, hash), endingReader{ctx, r})
	if _, local := errors.AsType[*os.PathError](err); err != nil && !local {
		err = brokenArchive(ctx, err)
	}
	if err == nil {
		err = f.Chmod(os.FileMode(file.Mode))
	}
	if err != nil {
		f.Close()
		return nil, 0, digest, err
	}
	return f, n, Digest(hash.Sum(nil)), nil
}

// matches returns ErrCorrupt if size or digest differ from the manifest.
func matches(file File, size int64, digest Digest) error {
	switch {
	case size != file.Size:
		return fmt.Errorf("%w: %s has %d bytes, the manifest lists %d", ErrCorrupt, file.Path, size, file.Size)
	case digest != file.SHA256:
		return fmt.Errorf("%w: %s has sha256 %v, the manifest lists %v", ErrCorrupt, file.Path, digest, file.SHA256)
	}
	return nil
}
