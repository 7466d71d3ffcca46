package release

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/spelling"
)

// Published is one release of a list.
type Published struct {
	Ref
	Platform
	Yanked bool `json:"yanked"` // it cannot be fetched; Show returns the reason
	Signed bool `json:"signed"` // it has a signature of any key; Show returns which
}

// List returns the releases of a namespace, or of a namespace and name. Empty arguments match all; a name requires a
// namespace. The order is by namespace and name, then semantic versions, newest first, then other versions by name,
// then platform. Without releases the list is empty, not nil: as JSON [].
func List(ctx context.Context, b Bucket, namespace, name string) ([]Published, error) {
	prefix, err := listPrefix(namespace, name)
	if err != nil {
		return nil, err
	}
	found, err := list(ctx, b, prefix, math.MaxInt)
	if err != nil {
		return nil, fmt.Errorf("list releases: %w", err)
	}
	return found, nil
}

// list is List for a prefix. It reads at most limit keys.
func list(ctx context.Context, b Bucket, prefix string, limit int) ([]Published, error) {
	var folders map[location]map[string]bool // names of the relevant objects
	err := retryTimeout(defaultRetryTimeout).retry(ctx, func(ctx context.Context, alive func()) error {
		folders = map[location]map[string]bool{}
		n := 0
		for k, err := range b.List(ctx, prefix) {
			if err != nil {
				return err
			}
			if n++; n > limit {
				break
			}
			alive()
			if at, object, ok := parseKey(k); ok && (object == manifestName || object == yankedName || object == signatureName) {
				if folders[at] == nil {
					folders[at] = map[string]bool{}
				}
				folders[at][object] = true
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	found := make([]Published, 0, len(folders))
	for at, has := range folders {
		if has[manifestName] {
			found = append(found, Published{at.Ref, at.Platform, has[yankedName], has[signatureName]})
		}
	}
	slices.SortFunc(found, comparePublished)
	return found, nil
}

// listPrefix returns the prefix of the keys of these releases.
func listPrefix(namespace, name string) (string, error) {
	switch {
	case namespace == "" && name == "":
		return "", nil
	case names.ValidRelease(namespace) && name == "":
		return namespace + "/", nil
	case names.ValidRelease(namespace) && names.ValidRelease(name):
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

// compareVersions orders semantic versions, with or without v, before all others, and newer ones before older ones.
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

// ReadManifest returns the manifest of a release. It returns ErrNotFound if it is not published for the platform, and
// ErrCorrupt if the manifest is damaged or belongs to another release.
func ReadManifest(ctx context.Context, b Bucket, ref Ref, platform Platform) (Manifest, error) {
	_, m, err := readManifest(ctx, b, ref, platform, retryTimeout(defaultRetryTimeout))
	return m, err
}

const (
	maxAvailable = 5      // versions listed in a message
	maxListed    = 10_000 // keys read for a message
)

// withAvailable adds the available versions to the error of a missing release. If the bucket cannot be listed, it
// returns err unchanged.
func withAvailable(ctx context.Context, b Bucket, ref Ref, platform Platform, err error) error {
	found, listErr := list(ctx, b, ref.Namespace+"/"+ref.Name+"/", maxListed)
	if listErr != nil {
		return err
	}
	return notPublished(ctx, b, ref, platform, found, err)
}

// notPublished returns an ErrNotPublished that lists the versions of the signal; without versions, the signals of the
// bucket. It suggests a near one.
func notPublished(ctx context.Context, b Bucket, ref Ref, platform Platform, found []Published, err error) error {
	text := available(found, ref, platform)
	if len(found) == 0 {
		text += signalsOf(ctx, b, ref)
	}
	return fmt.Errorf("%w: %w; %s", ErrNotPublished, err, text)
}

// signalsOf lists the signals of the bucket, the most similar names first, as the end of a sentence. It is empty if the
// bucket lacks it or cannot be listed.
func signalsOf(ctx context.Context, b Bucket, ref Ref) string {
	all, err := list(ctx, b, "", maxListed)
	if err != nil || len(all) == 0 {
		return ""
	}
	var names []string
	for _, p := range all {
		names = append(names, p.Namespace+"/"+p.Name)
	}
	names = slices.Compact(names)
	wanted := ref.Namespace + "/" + ref.Name
	return suggestion(names, wanted) + "; published are releases of " + nearest(names, wanted)
}

// suggestion returns the near name, as the end of a sentence.
func suggestion(names []string, wanted string) string {
	if near := spelling.Nearest(wanted, names); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// available describes the versions of a signal, the most similar ones first; of all platforms if platform is zero. It
// omits yanked versions.
func available(found []Published, ref Ref, platform Platform) string {
	var versions, elsewhere []string
	for _, p := range found {
		switch {
		case p.Ref == ref && !p.Yanked:
			elsewhere = append(elsewhere, p.Platform.String())
		case !p.Yanked && (platform == Platform{} || p.Platform == platform):
			versions = append(versions, p.Version)
		}
	}
	text := "no version of " + ref.Namespace + "/" + ref.Name
	if platform != (Platform{}) {
		text += " for " + platform.String()
	}
	text += " is published"
	if versions = slices.Compact(versions); len(versions) > 0 {
		text = "published are " + nearest(versions, ref.Version) + suggestion(versions, ref.Version)
	}
	if len(elsewhere) > 0 {
		text += "; this version is published for " + strings.Join(elsewhere, ", ")
	}
	return text
}

// nearest lists a few of the versions, the most similar spellings first. Equal ones keep their order.
func nearest(versions []string, to string) string {
	type candidate struct {
		version  string
		distance int
	}
	all := make([]candidate, len(versions))
	for i, v := range versions {
		all[i] = candidate{v, spelling.Distance(v, to)}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	names := make([]string, min(len(all), maxAvailable))
	for i := range names {
		names[i] = all[i].version
	}
	text := strings.Join(names, ", ")
	if more := len(all) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
