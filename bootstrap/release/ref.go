package release

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// Ref identifies a release: namespace, name and version of a signal. A version is a tag or a branch (v1.4.0, master,
// feature/x).
type Ref struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Version   string `json:"version"`
}

// ParseRef is the inverse of String: namespace/name@version.
func ParseRef(text string) (Ref, error) {
	owner, version, ok := strings.Cut(text, "@")
	namespace, name, slash := strings.Cut(owner, "/")
	if !ok || !slash {
		return Ref{}, fmt.Errorf("release %q: want namespace/name@version", text)
	}
	ref := Ref{Namespace: namespace, Name: name, Version: version}
	return ref, ref.Validate()
}

// String returns namespace/name@version.
func (r Ref) String() string { return r.Namespace + "/" + r.Name + "@" + r.Version }

// Validate returns an error for the first invalid part. Namespace and name have up to 64 letters, digits and "._-". A
// version has up to 128 of these and "+/". Each part, and each element of a version between slashes, begins with a
// letter, a digit or "_".
func (r Ref) Validate() error {
	switch {
	case !names.ValidRelease(r.Namespace):
		return fmt.Errorf("release %.300q: namespace %.100q: want up to %d letters, digits and ._-", r.String(), r.Namespace, names.MaxRelease)
	case !names.ValidRelease(r.Name):
		return fmt.Errorf("release %.300q: name %.100q: want up to %d letters, digits and ._-", r.String(), r.Name, names.MaxRelease)
	case len(r.Version) > names.MaxVersion:
		return fmt.Errorf("release %.300q: version is longer than %d bytes", r.String(), names.MaxVersion)
	case !names.ValidVersion(r.Version):
		return fmt.Errorf("release %.300q: version %.150q: want letters, digits and ._+-, with single slashes between", r.String(), r.Version)
	}
	return nil
}

// folder returns the path of the release below a bucket's prefix, without the platform. It replaces a slash of the
// version by ~, which a version cannot contain.
func (r Ref) folder() string {
	return r.Namespace + "/" + r.Name + "/" + strings.ReplaceAll(r.Version, "/", "~")
}

// Platform is an operating system and architecture, in Go's names.
type Platform struct {
	OS   string `json:"os"`
	Arch string `json:"arch"`
}

// Host returns the platform of this process.
func Host() Platform { return Platform{OS: runtime.GOOS, Arch: runtime.GOARCH} }

// ParsePlatform is the inverse of String: os-arch.
func ParsePlatform(text string) (Platform, error) {
	os, arch, _ := strings.Cut(text, "-")
	p := Platform{OS: os, Arch: arch}
	return p, p.Validate()
}

// String returns os-arch.
func (p Platform) String() string { return p.OS + "-" + p.Arch }

// Validate returns an error unless both are short names of letters and digits.
func (p Platform) Validate() error {
	if !names.ValidPlatform(p.OS) || !names.ValidPlatform(p.Arch) {
		return fmt.Errorf("platform %.150q: want os-arch, as in linux-amd64", p.String())
	}
	return nil
}

func key(ref Ref, p Platform, object string) string {
	return ref.folder() + "/" + p.String() + "/" + object
}

// location is where the objects of a release are.
type location struct {
	Ref
	Platform
}

// parseKey is the inverse of key. It returns false for other keys.
func parseKey(k string) (at location, object string, ok bool) {
	parts := strings.Split(k, "/")
	if len(parts) != 5 {
		return location{}, "", false
	}
	at.Ref = Ref{Namespace: parts[0], Name: parts[1], Version: strings.ReplaceAll(parts[2], "~", "/")}
	platform, err := ParsePlatform(parts[3])
	if err != nil || at.Ref.Validate() != nil {
		return location{}, "", false
	}
	at.Platform = platform
	return at, parts[4], true
}
