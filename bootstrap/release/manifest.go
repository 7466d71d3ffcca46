package release

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of a release. A larger one is neither published nor fetched.
const (
	maxManifest = 4 << 20 // bytes of manifest.json
	maxObject   = 1 << 30 // bytes of the archive
	maxUnpacked = 4 << 30 // bytes of all files
	maxFiles    = 10_000
	maxFolders  = 10_000 // folders that contain the files
	MaxDepth    = 32     // elements of a file's path
	maxPath     = 512    // bytes of a file's path
	maxLabel    = 128    // bytes of the SDK's name
)

const (
	manifestName   = "manifest.json"
	manifestFormat = 1
)

// Manifest describes the content of a release. It is stored as manifest.json.
type Manifest struct {
	Format int `json:"format"` // 1
	Ref
	Platform
	Created  time.Time `json:"created"`            // time of publishing
	SDK      string    `json:"sdk,omitempty"`      // name and version of the SDK in use
	Protocol int       `json:"protocol,omitempty"` // version of the plugin protocol; 0: no plugin
	Entry    string    `json:"entry"`              // the path of the executable to start
	Object   Object    `json:"object"`             // the archive
	Files    []File    `json:"files"`              // in byte order of their paths
}

// Object is the archive of a release.
type Object struct {
	Name   string `json:"name"` // beside the manifest
	Size   int64  `json:"size"` // bytes
	SHA256 Digest `json:"sha256"`
}

// File is one file of a release.
type File struct {
	Path   string `json:"path"` // relative, with slashes
	Size   int64  `json:"size"` // bytes
	Mode   Mode   `json:"mode"`
	SHA256 Digest `json:"sha256"`
}

// Digest is a SHA-256 digest. Its text form has 64 lower-case hexadecimal digits.
type Digest [sha256.Size]byte

// String returns the text form.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText returns the text form.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText parses the text form. It accepts no other form.
func (d *Digest) UnmarshalText(text []byte) error {
	if len(text) != 2*len(d) || bytes.ContainsAny(text, "ABCDEF") {
		return errors.New("sha256: want 64 lower-case hexadecimal digits")
	}
	if _, err := hex.Decode(d[:], text); err != nil {
		return fmt.Errorf("sha256: %w", err)
	}
	return nil
}

// Mode is the permission of a file, Plain or Executable. Its text form is octal.
type Mode fs.FileMode

const (
	Plain      Mode = 0o644
	Executable Mode = 0o755
)

func modeOf(m fs.FileMode) Mode {
	if m&0o111 != 0 {
		return Executable
	}
	return Plain
}

// String returns the octal form.
func (m Mode) String() string { return fmt.Sprintf("%04o", uint32(m)) }

// MarshalText returns the octal form.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (m *Mode) UnmarshalText(text []byte) error {
	v, err := strconv.ParseUint(string(text), 8, 32)
	if err != nil || (Mode(v) != Plain && Mode(v) != Executable) {
		return fmt.Errorf("mode %.20q: want %v or %v", text, Plain, Executable)
	}
	*m = Mode(v)
	return nil
}

// decodeManifest decodes one manifest. Trailing data, unknown keys and what Validate rejects are ErrCorrupt.
func decodeManifest(data []byte) (Manifest, error) {
	return decode[Manifest](data, maxManifest, "manifest: ")
}

func (m Manifest) encode() ([]byte, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	data = append(data, '\n')
	if len(data) > maxManifest {
		return nil, fmt.Errorf("manifest is larger than %d bytes", maxManifest)
	}
	return data, nil
}

// Validate returns every problem of the manifest, joined; at most one for each file.
func (m Manifest) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(m.Format == manifestFormat, "format %d: want %d", m.Format, manifestFormat)
	files := m.validateFiles()
	if files == nil && m.folders() > maxFolders {
		files = fmt.Errorf("%w: %d folders: want at most %d", ErrUnsafe, m.folders(), maxFolders)
	}
	errs = append(errs, m.Ref.Validate(), m.Platform.Validate(), files)
	year := m.Created.Year()
	check(year >= 1 && year <= 9999, "created: year %d", year)
	check(len(m.SDK) <= maxLabel && !hasControl(m.SDK), "sdk %.150q: want up to %d printable bytes", m.SDK, maxLabel)
	check(m.Protocol >= 0, "protocol %d: want 0 or more", m.Protocol)
	check(m.Object.Name == objectName(m.Object.SHA256), "object %.150q: want %s", m.Object.Name, objectName(m.Object.SHA256))
	check(m.Object.Size > 0 && m.Object.Size <= maxObject, "object has %d bytes: want 1 to %d", m.Object.Size, int64(maxObject))
	entry, ok := m.file(m.Entry)
	check(ok && entry.Mode == Executable, "entry %.100q: want one of the files, with mode %v", m.Entry, Executable)
	return errors.Join(errs...)
}

func (m Manifest) validateFiles() error {
	if len(m.Files) > maxFiles {
		return fmt.Errorf("%w: %d files: want at most %d", ErrUnsafe, len(m.Files), maxFiles)
	}
	var errs []error
	var total int64
	for i, f := range m.Files {
		switch {
		case !safePath(f.Path):
			errs = append(errs, fmt.Errorf("%w: file %.100q: want a relative path that stays inside, of up to %d elements", ErrUnsafe, f.Path, MaxDepth))
		case i > 0 && f.Path <= m.Files[i-1].Path:
			errs = append(errs, fmt.Errorf("file %.100q: want each once, in order of paths", f.Path))
		case f.Mode != Plain && f.Mode != Executable:
			errs = append(errs, fmt.Errorf("file %.100q: mode %v: want %v or %v", f.Path, f.Mode, Plain, Executable))
		case f.Size < 0 || f.Size > maxUnpacked-total:
			return errors.Join(append(errs, fmt.Errorf("%w: file %.100q has %d bytes: want at most %d in all files",
				ErrUnsafe, f.Path, f.Size, int64(maxUnpacked)))...)
		default:
			total += f.Size
		}
	}
	return errors.Join(errs...)
}

func (m Manifest) unpacked() (total int64) {
	for _, f := range m.Files {
		total += f.Size
	}
	return total
}

// folders returns the number of folders of valid files. Paths are sorted, so files of one folder are adjacent.
func (m Manifest) folders() (n int) {
	before := ""
	for _, f := range m.Files {
		for i, c := range f.Path {
			if c == '/' && !strings.HasPrefix(before, f.Path[:i+1]) {
				n++
			}
		}
		before = f.Path
	}
	return n
}

func (m Manifest) file(path string) (File, bool) {
	i, ok := slices.BinarySearchFunc(m.Files, path, func(f File, path string) int { return strings.Compare(f.Path, path) })
	if !ok {
		return File{}, false
	}
	return m.Files[i], true
}

// sameContent reports whether both are the same release with the same files. It ignores the time of publishing and the
// archive: another version of the publisher may compress the same bytes differently.
func (m Manifest) sameContent(other Manifest) bool {
	return m.Ref == other.Ref && m.Platform == other.Platform && m.SDK == other.SDK &&
		m.Protocol == other.Protocol && m.Entry == other.Entry && slices.Equal(m.Files, other.Files)
}

func (m Manifest) objectKey() string { return key(m.Ref, m.Platform, m.Object.Name) }

func objectName(d Digest) string { return "sha256-" + d.String() + ".tar.gz" }

// safePath reports whether a path in an archive may be unpacked.
func safePath(p string) bool {
	return len(p) <= maxPath && strings.Count(p, "/") < MaxDepth && p != "." && fs.ValidPath(p) && !strings.Contains(p, `\`) && !hasControl(p)
}

func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\ufffd' })
}
