package message

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// Bounds of one publication of Counts.
const (
	MaxCountApps  = 2500 // of one part, so that it fits in 1 MB
	MaxCountParts = 1024
)

// Counts has the counts of one pool's app instances. It is published on CountsSubject after
// each change and at least once in each heartbeat period. It also answers requests on
// CountsRequestSubject.
type Counts struct {
	Pool string `json:"pool"`
	// Complete: both states are complete and fresh. Otherwise do not act on the counts.
	Complete bool      `json:"complete"`
	Why      string    `json:"why,omitempty"` // why it is not complete
	At       time.Time `json:"at"`
	// Part is the number of this message, from 0, among Parts. The Counts of many apps need
	// several messages with the same At. Parts 0 means 1.
	Part  int `json:"part,omitempty"`
	Parts int `json:"parts,omitempty"`

	Apps map[string]AppCount `json:"apps"`
}

// AppCount is one app's line in Counts.
type AppCount struct {
	Expected int     `json:"expected"`
	Running  int     `json:"running"`
	Missing  int     `json:"missing"`
	Flapping int     `json:"flapping"`
	Crashed  int     `json:"crashed"`
	Extra    int     `json:"extra"`
	CPUs     float64 `json:"cpus_expected"` // of Expected copies
	Mem      float64 `json:"mem_expected"`
	Disk     float64 `json:"disk_expected"`
}

// CountsSubject is the subject on which a pool's Counts are published.
func CountsSubject(cluster, pool string) string { return names.Subject(cluster, "counts", pool) }

// CountsRequestSubject is the subject for requests of a pool's Counts.
func CountsRequestSubject(cluster, pool string) string {
	return names.Subject(cluster, "counts", pool, "get")
}

// Split splits the counts into at least one part, in order of app name. A part has at most
// apps apps; it has more if there would be more than MaxCountParts parts.
func (c Counts) Split(apps int) []Counts {
	names := slices.Sorted(maps.Keys(c.Apps))
	apps = max(apps, 1, (len(names)+MaxCountParts-1)/MaxCountParts)
	parts := make([]Counts, max(1, (len(names)+apps-1)/apps))
	for i := range parts {
		part := c
		mine := names[i*apps : min((i+1)*apps, len(names))]
		part.Part, part.Parts, part.Apps = i, len(parts), make(map[string]AppCount, len(mine))
		for _, name := range mine {
			part.Apps[name] = c.Apps[name]
		}
		parts[i] = part
	}
	return parts
}

// Gather joins the parts of one pool's Counts. Its zero value is ready for use.
type Gather struct {
	whole Counts
	have  []bool // by part
	lack  int
}

// Add adds a part, in any order. It returns the joined Counts once all parts are there. A part
// with another pool, At or number of parts drops the parts so far.
func (g *Gather) Add(c Counts) (whole Counts, ok bool) {
	parts := max(c.Parts, 1)
	if c.Part < 0 || c.Part >= parts || parts > MaxCountParts {
		return Counts{}, false
	}
	if w := &g.whole; w.Pool != c.Pool || !w.At.Equal(c.At) || len(g.have) != parts {
		g.whole, g.have, g.lack = c, make([]bool, parts), parts
		g.whole.Part, g.whole.Parts = 0, 1
		g.whole.Apps = make(map[string]AppCount, len(c.Apps))
	}
	if g.have[c.Part] {
		return Counts{}, false
	}
	g.have[c.Part] = true
	g.lack--
	maps.Copy(g.whole.Apps, c.Apps)
	g.whole.Complete = g.whole.Complete && c.Complete
	if g.lack > 0 {
		return Counts{}, false
	}
	whole, *g = g.whole, Gather{}
	return whole, true
}

// DecodeCounts decodes a pool's Counts. It rejects negative numbers.
func DecodeCounts(data []byte) (Counts, error) {
	var c Counts
	if err := unmarshal(data, &c); err != nil {
		return Counts{}, fmt.Errorf("decode counts: %w", err)
	}
	if c.Parts < 0 || c.Parts > MaxCountParts || c.Part < 0 || c.Part >= max(c.Parts, 1) {
		return Counts{}, fmt.Errorf("decode counts: %w", &FieldError{Field: "part",
			Problem: fmt.Sprintf("is %d of %d; at most %d parts are allowed", c.Part, c.Parts, MaxCountParts)})
	}
	for name, a := range c.Apps {
		if min(a.Expected, a.Running, a.Missing, a.Flapping, a.Crashed, a.Extra) < 0 ||
			min(a.CPUs, a.Mem, a.Disk) < 0 {
			return Counts{}, fmt.Errorf("decode counts: %w",
				&FieldError{Field: "apps." + name, Problem: "has a negative number"})
		}
	}
	return c, nil
}

// Add returns the sum, field by field.
func (a AppCount) Add(b AppCount) AppCount {
	return AppCount{
		Expected: a.Expected + b.Expected,
		Running:  a.Running + b.Running,
		Missing:  a.Missing + b.Missing,
		Flapping: a.Flapping + b.Flapping,
		Crashed:  a.Crashed + b.Crashed,
		Extra:    a.Extra + b.Extra,
		CPUs:     a.CPUs + b.CPUs,
		Mem:      a.Mem + b.Mem,
		Disk:     a.Disk + b.Disk,
	}
}
