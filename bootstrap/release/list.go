package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// Published is one release of a listing.
type Published struct {
	Ref
	Platform
}

// List returns what is published below a namespace, or a namespace and name;
// empty ones stand for all, and a name needs its namespace. The order is by
// namespace and name; within these semantic versions first, the newest at the
// top, then the other versions by name; then by platform.
func List(ctx context.Context, b Bucket, namespace, name string) ([]Published, error) {
	prefix, err := listPrefix(namespace, name)
	if err != nil {
		return nil, err
	}
	var found []Published
	err = patience(DefaultPatience).retry(ctx, func(ctx context.Context, alive func()) error {
		found = nil
		for k, err := range b.List(ctx, prefix) {
			if err != nil {
				return err
			}
			alive()
			if ref, platform, ok := parseManifestKey(k); ok {
				found = append(found, Published{ref, platform})
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list releases: %w", err)
	}
	slices.SortFunc(found, comparePublished)
	return found, nil
}

// listPrefix returns what the keys of these releases begin with.
func listPrefix(namespace, name string) (string, error) {
	switch {
	case namespace == "" && name == "":
		return "", nil
	case isName(namespace, "._-") && name == "":
		return namespace + "/", nil
	case isName(namespace, "._-") && isName(name, "._-"):
		return namespace + "/" + name + "/", nil
	}
	return "", fmt.Errorf("list releases of %q: want NAMESPACE or NAMESPACE/NAME", namespace+"/"+name)
}

func comparePublished(a, b Published) int {
	return cmp.Or(
		strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Name, b.Name),
		compareVersions(a.Version, b.Version),
		strings.Compare(a.Platform.String(), b.Platform.String()),
	)
}

// compareVersions puts semantic versions, with or without the v, before all
// others, and newer ones before older.
func compareVersions(a, b string) int {
	va, vb := "v"+strings.TrimPrefix(a, "v"), "v"+strings.TrimPrefix(b, "v")
	switch va, vb := semver.IsValid(va), semver.IsValid(vb); {
	case va && !vb:
		return -1
	case vb && !va:
		return 1
	case !va && !vb:
		return strings.Compare(a, b)
	}
	return cmp.Or(semver.Compare(vb, va), strings.Compare(a, b))
}

// ReadManifest returns the manifest of a release: ErrNotFound if it is not
// published for the platform, ErrCorrupt if the manifest is damaged or is that
// of another release.
func ReadManifest(ctx context.Context, b Bucket, ref Ref, platform Platform) (Manifest, error) {
	return readManifest(ctx, b, ref, platform, patience(DefaultPatience))
}

func readManifest(ctx context.Context, b Bucket, ref Ref, platform Platform, wait patience) (m Manifest, err error) {
	if err := errors.Join(ref.Validate(), platform.Validate()); err != nil {
		return Manifest{}, err
	}
	k := key(ref, platform, manifestName)
	err = wait.retry(ctx, func(ctx context.Context, _ func()) error {
		body, err := b.Get(ctx, k, 0)
		if err != nil {
			return err
		}
		defer body.Close()
		if m, err = DecodeManifest(body); err != nil {
			return fmt.Errorf("read %s: %w", b.URL(k), err)
		}
		return nil
	})
	if err != nil {
		return Manifest{}, err
	}
	if m.Ref != ref || m.Platform != platform {
		return Manifest{}, fmt.Errorf("read %s: %w: it is the manifest of %s for %s", b.URL(k), ErrCorrupt, m.Ref, m.Platform)
	}
	return m, nil
}
