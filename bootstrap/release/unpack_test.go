package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Folders count, also those that only a path implies.
func TestVenvCounts(t *testing.T) {
	const free = 3
	for _, tc := range []struct {
		name   string
		header tar.Header
		refuse bool
	}{
		{"as many folders as fit", tar.Header{Typeflag: tar.TypeDir, Name: "a/b/c/"}, false},
		{"a folder and its parents", tar.Header{Typeflag: tar.TypeDir, Name: "a/b/c/d/"}, true},
		{"a file that fits", tar.Header{Typeflag: tar.TypeReg, Name: "a/b/x"}, false},
		{"a file and its parents", tar.Header{Typeflag: tar.TypeReg, Name: "a/b/c/x"}, true},
		{"a link that fits", tar.Header{Typeflag: tar.TypeSymlink, Name: "a/b/x", Linkname: "y"}, false},
		{"a link and its parents", tar.Header{Typeflag: tar.TypeSymlink, Name: "a/b/c/x", Linkname: "y"}, true},
		{"a folder that is there", tar.Header{Typeflag: tar.TypeDir, Name: "known0/"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			root, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			v := &venv{root: root, files: map[string]File{}, links: map[string]link{}, folders: map[string]bool{}, left: maxUnpacked}
			for i := range maxVenvPaths - free {
				v.folders[fmt.Sprint("known", i)] = true
			}
			err = v.unpackEntry(t.Context(), &tc.header, strings.NewReader(""))
			if errors.Is(err, ErrUnsafe) != tc.refuse || err != nil && !tc.refuse {
				t.Errorf("take = %v, refusal %v is wanted", err, tc.refuse)
			}
			if made, _ := os.ReadDir(dir); tc.refuse && len(made) > 0 {
				t.Errorf("refused, but there is %v", made)
			}
		})
	}
}

func TestManifestFolders(t *testing.T) {
	of := func(paths ...string) Manifest {
		m := validManifest()
		m.Files = nil
		for _, p := range slices.Concat(paths, []string{"run"}) {
			m.Files = append(m.Files, File{Path: p, Mode: Executable})
		}
		return m
	}
	if d := cmp.Diff(5, of("a-b/x", "a/b/c/x", "a/b/y", "a/z", "b/x").folders()); d != "" {
		t.Errorf("folders (-want +got):\n%s", d)
	}
	deep := strings.Repeat("d/", MaxDepth-1)
	var many []string // each file in its own folder inside another
	for i := range maxFolders/2 + 1 {
		many = append(many, fmt.Sprintf("%05d/d/x", i))
	}
	for _, tc := range []struct {
		name string
		m    Manifest
		want error
	}{
		{"deep", of(deep + "x"), nil},
		{"too deep", of("d/" + deep + "x"), ErrUnsafe},
		{"many folders", of(many[:maxFolders/2]...), nil},
		{"too many folders", of(many...), ErrUnsafe},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := tc.m.Validate(); !errors.Is(err, tc.want) {
				t.Errorf("Validate = %v, want %v", err, tc.want)
			}
		})
	}
}

// endingArchive ends a context after some reads.
type endingArchive struct {
	io.Reader
	reads int
	end   func()
}

func (r *endingArchive) Read(p []byte) (int, error) {
	if r.reads--; r.reads == 0 {
		r.end()
	}
	return r.Reader.Read(p[:min(len(p), 512)])
}

// Unpacking stops when its context ends, in the middle of a file and between folders, and does not report damage.
func TestUnpackStopsWhenCancelled(t *testing.T) {
	const large = 32 << 20
	archive := func(headers ...tar.Header) []byte {
		var buf bytes.Buffer
		gz := gzip.NewWriter(&buf)
		w := tar.NewWriter(gz)
		for _, h := range headers {
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(make([]byte, h.Size)); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(w.Close(), gz.Close()); err != nil {
			t.Fatal(err)
		}
		return buf.Bytes()
	}
	var folders []tar.Header
	for i := range 3000 {
		folders = append(folders, tar.Header{Typeflag: tar.TypeDir, Name: fmt.Sprintf("d%d/", i), ModTime: time.Unix(int64(i*i), 0)})
	}
	file := tar.Header{Typeflag: tar.TypeReg, Name: "run", Size: large, Mode: 0o755}
	venv := func(ctx context.Context, r io.Reader, root *os.Root) error {
		_, _, err := readVenv(ctx, r, root, "run")
		return err
	}
	ours := func(ctx context.Context, r io.Reader, root *os.Root) error {
		return unpack(ctx, r, Manifest{Files: []File{{Path: "run", Size: large, Mode: Executable}}}, root)
	}
	for _, tc := range []struct {
		name   string
		data   []byte
		unpack func(context.Context, io.Reader, *os.Root) error
	}{
		{"tarball, a large file", archive(file), venv},
		{"tarball, many folders", archive(folders...), venv},
		{"ours, a large file", archive(file), ours},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			root, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			over := errors.New("bootstrap ends")
			ctx, cancel := context.WithCancelCause(t.Context())
			err = tc.unpack(ctx, &endingArchive{bytes.NewReader(tc.data), 8, func() { cancel(over) }}, root)
			if !errors.Is(err, over) || errors.Is(err, ErrCorrupt) || errors.Is(err, ErrUnsafe) {
				t.Errorf("unpack = %v, want %v", err, over)
			}
			if info, err := os.Stat(filepath.Join(dir, "run")); err == nil && info.Size() > large/2 {
				t.Errorf("it wrote %d bytes of %d after that", info.Size(), large)
			}
			if made, _ := os.ReadDir(dir); len(made) > len(folders)/2 {
				t.Errorf("it made %d folders of %d after that", len(made), len(folders))
			}
		})
	}
}
