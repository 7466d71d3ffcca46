package fit

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// CanHold reports whether a node of one of these sizes, or a machine of one of these kinds, may hold such a copy. A machine of
// unknown size may. Without any kind it is not known what the provider has, so one may.
func CanHold(footprint resource.Vector, kinds []api.PlacesKind, sizes []resource.Vector) bool {
	for _, k := range kinds {
		if k.Unknown || fits(&footprint, &k.Resources) {
			return true
		}
	}
	return len(kinds) == 0 || slices.ContainsFunc(sizes, footprint.Fits)
}

// sizes returns the sizes of the nodes, each once.
func (s *solver) sizes() (all []resource.Vector) {
	seen := map[resource.Vector]bool{}
	for _, n := range s.Nodes {
		if !seen[n.Size] {
			seen[n.Size] = true
			all = append(all, n.Size)
		}
	}
	return all
}

// setApart removes the copies that nothing can ever hold, and returns the other classes.
func (s *solver) setApart(all []*class) (rest []*class) {
	var sizes []resource.Vector
	if len(all) > 0 {
		sizes = s.sizes()
	}
	for _, c := range all {
		if CanHold(c.footprint, s.Question.Kinds, sizes) {
			rest = append(rest, c)
			continue
		}
		s.answer.NeverCopies += len(c.copies)
		s.answer.Unplaceable = s.answer.Unplaceable.Add(c.footprint.Scale(float64(len(c.copies))))
		s.answer.Never = appendApps(s.answer.Never, c, s.whyNever(c.footprint))
	}
	return rest
}

// short lists the copies that a machine could hold, and that have no place.
func (s *solver) short(rest unplaced) {
	for _, c := range rest.classes {
		s.answer.ShortCopies += len(c.copies)
		s.answer.Short = appendApps(s.answer.Short, c, s.whyShort(c.footprint))
	}
	for _, c := range rest.unexamined {
		s.answer.ShortCopies += len(c.copies)
		s.answer.Short = appendApps(s.answer.Short, c, "not examined: too many different copies wait")
	}
}

// appendApps appends the copies of a class by app.
func appendApps(list []api.PlacesApp, c *class, why string) []api.PlacesApp {
	for i, one := range c.copies {
		if i > 0 && one.App == c.copies[i-1].App {
			list[len(list)-1].Copies++
			continue
		}
		if len(list) == api.MaxPlacesApps {
			break
		}
		list = append(list, api.PlacesApp{App: one.App, Copies: 1, Footprint: c.footprint, Why: why})
	}
	return list
}

// whyShort returns why no group gets a machine for such a copy.
func (s *solver) whyShort(footprint resource.Vector) string {
	var causes []string
	for _, k := range s.Question.Kinds {
		switch {
		case k.Unknown && k.Coming > 0:
			causes = append(causes, fmt.Sprintf("the size of the machines of group %s is unknown until the first one has joined", k.Group))
		case k.Unknown || fits(&footprint, &k.Resources):
			causes = append(causes, fmt.Sprintf("group %s %s", k.Group, cmp.Or(k.Why, fmt.Sprintf("may add only %d machines now", k.Room))))
		}
	}
	if causes == nil {
		causes = []string{"no group has machines that can hold it, and the nodes that can are full"}
	}
	return clip(strings.Join(causes, "; "))
}

// whyNever returns why nothing can hold such a copy.
func (s *solver) whyNever(footprint resource.Vector) string {
	var causes []string
	for _, k := range resource.Kinds() {
		if most, where := s.largest(k); footprint[k] > most+resource.Slack {
			causes = append(causes, fmt.Sprintf("%s, the largest machine%s has %s", amount(k, footprint[k]), where, amount(k, most)))
		}
	}
	if causes == nil {
		return clip("no machine of this pool has all of " + amounts(footprint))
	}
	return clip("it needs " + strings.Join(causes, ", and "))
}

// largest returns the largest value of a kind of resource, and the machine that has it.
func (s *solver) largest(k resource.Kind) (most float64, where string) {
	for _, kind := range s.Question.Kinds {
		if kind.Resources[k] > most {
			most, where = kind.Resources[k], " (group "+kind.Group+")"
		}
	}
	var largest *Node
	for _, n := range s.Nodes {
		if n.Size[k] > most || largest != nil && n.Size[k] == most && n.ID < largest.ID {
			most, largest = n.Size[k], n
		}
	}
	if largest != nil {
		where = " (node " + largest.ID + ")"
	}
	return most, where
}

// amount returns a quantity with its unit.
func amount(k resource.Kind, x float64) string {
	unit := map[resource.Kind]string{resource.Mem: "MB of memory", resource.Disk: "MB of disk"}[k]
	return strconv.FormatFloat(x, 'f', -1, 64) + " " + cmp.Or(unit, k.String())
}

// amounts returns the quantities above 0: "cpus=0.6 mem=64".
func amounts(v resource.Vector) string {
	r := resource.Request{}
	for _, k := range resource.Kinds() {
		if v[k] > 0 {
			r = r.With(k, v[k])
		}
	}
	if r.IsEmpty() {
		return "no resources"
	}
	return r.String()
}

// clip returns the beginning of a text that is too long.
func clip(text string) string {
	if len(text) > api.MaxPlacesText {
		text = strings.ToValidUTF8(text[:api.MaxPlacesText-3], "") + "..."
	}
	return text
}
