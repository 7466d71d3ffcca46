package release

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/weirkeeper/weirkeeper/internal/spelling"
)

const (
	maxOffer  = 5      // versions named in a message
	maxListed = 10_000 // keys read for the sake of a message
)

// withOffer adds to the refusal of a release that is not there which are. It
// says nothing if the bucket does not list: the refusal stands for itself.
func withOffer(ctx context.Context, b Bucket, ref Ref, platform Platform, err error) error {
	found, listErr := list(ctx, b, ref.Namespace+"/"+ref.Name+"/", maxListed)
	if listErr != nil {
		return err
	}
	return fmt.Errorf("%w; %s", err, offer(found, ref, platform))
}

// offer says which versions of a signal there are, those first that are likely
// to be meant; of all platforms if platform is zero. What is yanked is no offer.
func offer(found []Published, ref Ref, platform Platform) string {
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
		text = "published are " + nearest(versions, ref.Version)
	}
	if len(elsewhere) > 0 {
		text += "; this version is published for " + strings.Join(elsewhere, ", ")
	}
	return text
}

// nearest names a few of the versions: those that are written most alike first,
// and in the order that they come in among these.
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
	names := make([]string, min(len(all), maxOffer))
	for i := range names {
		names[i] = all[i].version
	}
	text := strings.Join(names, ", ")
	if more := len(all) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
