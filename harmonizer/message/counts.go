package message

import (
	"fmt"
	"maps"
	"slices"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// Bounds of one publication of Counts.
const (
	MaxCountApps  = 2500 // of one part, so that it fits in 1 MB
	maxCountParts = 1024
)

// CountsSubject is the subject on which a pool's Counts are published.
func CountsSubject(cluster, pool string) string { return names.Subject(cluster, "counts", pool) }

// CountsRequestSubject is the subject for requests of a pool's Counts.
func CountsRequestSubject(cluster, pool string) string {
	return names.Subject(cluster, "counts", pool, "get")
}

// SplitCounts splits the counts into at least one part, in order of app name. A part has at most
// apps apps; it has more if there would be more than maxCountParts parts.
func SplitCounts(c api.InstanceCounts, apps int) []api.InstanceCounts {
	names := slices.Sorted(maps.Keys(c.Apps))
	apps = max(apps, 1, (len(names)+maxCountParts-1)/maxCountParts)
	parts := make([]api.InstanceCounts, max(1, (len(names)+apps-1)/apps))
	for i := range parts {
		part := c
		mine := names[i*apps : min((i+1)*apps, len(names))]
		part.Part, part.Parts, part.Apps = i, len(parts), make(map[string]api.AppCount, len(mine))
		for _, name := range mine {
			part.Apps[name] = c.Apps[name]
		}
		parts[i] = part
	}
	return parts
}

// Gather joins the parts of one pool's Counts. Its zero value is ready for use.
type Gather struct {
	whole api.InstanceCounts
	have  []bool // by part
	lack  int
}

// Add adds a part, in any order. It returns the joined Counts once all parts are there. A part
// with another pool, At or number of parts drops the parts so far.
func (g *Gather) Add(c api.InstanceCounts) (whole api.InstanceCounts, ok bool) {
	parts := max(c.Parts, 1)
	if c.Part < 0 || c.Part >= parts || parts > maxCountParts {
		return api.InstanceCounts{}, false
	}
	if w := &g.whole; w.Pool != c.Pool || !w.At.Equal(c.At) || len(g.have) != parts {
		g.whole, g.have, g.lack = c, make([]bool, parts), parts
		g.whole.Part, g.whole.Parts = 0, 1
		g.whole.Apps = make(map[string]api.AppCount, len(c.Apps))
	}
	if g.have[c.Part] {
		return api.InstanceCounts{}, false
	}
	g.have[c.Part] = true
	g.lack--
	maps.Copy(g.whole.Apps, c.Apps)
	g.whole.Complete = g.whole.Complete && c.Complete
	if g.lack > 0 {
		return api.InstanceCounts{}, false
	}
	whole, *g = g.whole, Gather{}
	return whole, true
}

// DecodeCounts decodes a pool's Counts. It rejects negative numbers.
func DecodeCounts(data []byte) (api.InstanceCounts, error) {
	var c api.InstanceCounts
	if err := Unmarshal(data, &c); err != nil {
		return api.InstanceCounts{}, fmt.Errorf("decode counts: %w", err)
	}
	if c.Parts < 0 || c.Parts > maxCountParts || c.Part < 0 || c.Part >= max(c.Parts, 1) {
		return api.InstanceCounts{}, fmt.Errorf("decode counts: %w", &FieldError{Field: "part",
			Problem: fmt.Sprintf("is %d of %d; at most %d parts are allowed", c.Part, c.Parts, maxCountParts)})
	}
	for name, a := range c.Apps {
		if min(a.Expected, a.Running, a.Missing, a.Flapping, a.Crashed, a.Extra, a.Done, a.Failed) < 0 ||
			min(a.CPUs, a.Mem, a.Disk) < 0 {
			return api.InstanceCounts{}, fmt.Errorf("decode counts: %w",
				&FieldError{Field: "apps." + name, Problem: "has a negative number"})
		}
	}
	return c, nil
}
