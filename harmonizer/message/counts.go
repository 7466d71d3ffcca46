package message

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/names"
)

// Bounds on one telling of Counts.
const (
	MaxCountApps  = 2500 // of one part, so that it fits into 1 MB
	MaxCountParts = 1024
)

// Counts is what the harmonizer knows of one pool's app instances, published on
// CountsSubject when it changes and at least each heartbeat period, answered
// there on request too.
type Counts struct {
	Pool string `json:"pool"`
	// Complete: both states are fresh and whole. Otherwise nothing below may be
	// acted on.
	Complete bool      `json:"complete"`
	Why      string    `json:"why,omitempty"` // why it is not complete
	At       time.Time `json:"at"`
	// Part of Parts, from 0 on: one telling of many apps is several messages,
	// all of the same At. No Parts is one.
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
	CPUs     float64 `json:"cpus_expected"` // Expected times one copy
	Mem      float64 `json:"mem_expected"`
	Disk     float64 `json:"disk_expected"`
}

// CountsSubject is where a pool's Counts are published.
func CountsSubject(cluster, pool string) string { return names.Subject(cluster, "counts", pool) }

// CountsRequestSubject answers a request with the pool's Counts.
func CountsRequestSubject(cluster, pool string) string {
	return names.Subject(cluster, "counts", pool, "get")
}

// Split returns the counts in parts of at most so many apps each, in the order
// of their names; at least one part. It makes parts larger where they would be
// more than MaxCountParts.
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

// Gather joins the parts of one pool's Counts. Its zero value is ready.
type Gather struct {
	whole Counts
	have  []bool // by part
	lack  int
}

// Add takes a part, in any order, and returns the whole once all parts of its
// telling are there. A part of another telling, or pool, begins anew: what
// lacked then is not waited for.
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

// DecodeCounts reads a pool's Counts. No count and no quantity is negative.
func DecodeCounts(data []byte) (Counts, error) {
	var c Counts
	if err := unmarshal(data, &c); err != nil {
		return Counts{}, fmt.Errorf("decode counts: %w", err)
	}
	if c.Parts < 0 || c.Parts > MaxCountParts || c.Part < 0 || c.Part >= max(c.Parts, 1) {
		return Counts{}, fmt.Errorf("decode counts: %w", &FieldError{Field: "part",
			Problem: fmt.Sprintf("is %d of %d, at most %d", c.Part, c.Parts, MaxCountParts)})
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
