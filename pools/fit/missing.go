package fit

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Sizes returns the sizes of the machines that a pool has or can get, each once: those of the kinds in their order, and those of
// the nodes in order of id. It is nil if they are not known: without any kind, or with a kind of unknown size.
func Sizes(kinds []api.PlacesKind, nodes iter.Seq2[string, resource.Vector]) []api.MachineSize {
	if len(kinds) == 0 || slices.ContainsFunc(kinds, func(k api.PlacesKind) bool { return k.Unknown }) {
		return nil
	}
	var all []api.MachineSize
	seen := map[resource.Vector]bool{}
	for _, k := range kinds {
		if !seen[k.Resources] {
			seen[k.Resources] = true
			all = append(all, api.MachineSize{Where: "group " + k.Group, Resources: k.Resources})
		}
	}
	first := map[resource.Vector]string{} // size -> the first node
	for id, size := range nodes {
		if other, is := first[size]; !seen[size] && (!is || id < other) {
			first[size] = id
		}
	}
	ofKinds := len(all)
	for size, id := range first {
		all = append(all, api.MachineSize{Where: "node " + id, Resources: size})
	}
	slices.SortFunc(all[ofKinds:], func(a, b api.MachineSize) int { return strings.Compare(a.Where, b.Where) })
	return all
}

// CanHold reports whether a machine of one of these sizes can hold such a copy. Without any size they are unknown, so one may.
func CanHold(footprint resource.Vector, sizes []api.MachineSize) bool {
	return len(sizes) == 0 || slices.ContainsFunc(sizes, func(m api.MachineSize) bool { return footprint.Fits(m.Resources) })
}

// WhyNever returns why no machine of these sizes can hold such a copy: "it needs 50 cpus, the largest machine (group b) has 8
// cpus". It is empty if CanHold is true.
func WhyNever(footprint resource.Vector, sizes []api.MachineSize) string {
	if CanHold(footprint, sizes) {
		return ""
	}
	var causes []string
	for _, k := range resource.Kinds() {
		most, where := 0.0, ""
		for _, m := range sizes {
			if m.Resources[k] > most {
				most, where = m.Resources[k], " ("+m.Where+")"
			}
		}
		if footprint[k] > most+resource.Slack {
			causes = append(causes, fmt.Sprintf("%s, the largest machine%s has %s", Amount(k, footprint[k]), where, Amount(k, most)))
		}
	}
	if causes == nil {
		return clip("no machine has all of " + amounts(footprint))
	}
	return clip("it needs " + strings.Join(causes, ", and "))
}

// setApart removes the copies that nothing can ever hold, and returns the other classes.
func (s *solver) setApart(all []*class) (rest []*class) {
	if len(all) == 0 {
		return nil
	}
	sizes := s.sizes("")
	for _, c := range all {
		why := s.rules.whyNever(&s.World, c, sizes)
		if why == "" {
			rest = append(rest, c)
			continue
		}
		s.answer.NeverCopies += len(c.copies)
		s.answer.Unplaceable = s.answer.Unplaceable.Add(c.footprint.Scale(float64(len(c.copies))))
		s.answer.Never = appendApps(s.answer.Never, c, why)
		s.move(api.PlacesMove{Why: why}, c.copies...)
	}
	return rest
}

// sizes returns the sizes of the machines of a group, or of all groups if it is empty.
func (s *solver) sizes(group string) []api.MachineSize {
	kinds := s.Question.Kinds
	if group != "" {
		kinds = slices.DeleteFunc(slices.Clone(kinds), func(k api.PlacesKind) bool { return k.Group != group })
	}
	return Sizes(kinds, func(yield func(string, resource.Vector) bool) {
		for _, n := range s.Nodes {
			if (group == "" || n.Group == group) && !yield(n.ID, n.Size) {
				return
			}
		}
	})
}

// short lists the copies that a machine could hold, and that have no place.
func (s *solver) short(rest unplaced) {
	for _, c := range waitingOnly(rest.classes) {
		s.addShort(c, s.whyShort(c))
	}
	for _, c := range rest.unexamined {
		s.addShort(c, "not examined: too many different copies wait")
	}
}

func (s *solver) addShort(c *class, why string) {
	if c.headroom > 0 {
		if h := &s.answer.Headroom[c.headroom-1]; len(c.copies) > 0 {
			h.Short, h.Why = h.Short+len(c.copies), why
		}
		return
	}
	s.answer.ShortCopies += len(c.copies)
	s.answer.Short = appendApps(s.answer.Short, c, why)
	s.move(api.PlacesMove{Why: why}, c.copies...)
}

// headroom returns the free places that a machine can hold, those with limits first, because the others may be on more nodes. It
// begins the answer about all of them.
func (s *solver) headroom() []*class {
	var all []Copy
	for i, h := range s.Headroom {
		a := api.PlacesHeadroom{Name: h.Place.App, Resources: h.Place.Footprint, Wanted: h.Wanted, Why: clip(h.Why)}
		if why := WhyNever(h.Place.Footprint, s.sizes(h.Place.Group)); why != "" && h.Wanted > 0 {
			a.Short, a.Why = h.Wanted, why
		} else {
			a.Free = h.Wanted
			for index := range h.Wanted {
				one := h.Place
				one.Index, one.headroom = index, i+1
				all = append(all, one)
			}
		}
		s.answer.Headroom = append(s.answer.Headroom, a)
	}
	out := classes(all, s.unit)
	slices.SortStableFunc(out, func(a, b *class) int { return cmp.Compare(b.bounds(), a.bounds()) })
	return out
}

// countPlaces calls count with each headroom, and the number of its places that are left.
func (s *solver) countPlaces(rest unplaced, count func(h *api.PlacesHeadroom, left int)) {
	left := make([]int, len(s.answer.Headroom)+1)
	for _, c := range slices.Concat(rest.classes, rest.unexamined) {
		left[c.headroom] += len(c.copies)
	}
	for i := range s.answer.Headroom {
		count(&s.answer.Headroom[i], left[i+1])
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

// whyShort returns why no group gets a machine for such copies.
func (s *solver) whyShort(c *class) string {
	var causes []string
	if len(s.Question.Kinds) == 0 {
		return "the machines that the groups can add are unknown"
	}
	for _, k := range s.Question.Kinds {
		switch {
		case !c.in(k.Group):
		case s.rules.ordered(k.Group, c.copies[0]) != "":
			causes = append(causes, fmt.Sprintf("group %s: %s", k.Group, s.rules.ordered(k.Group, c.copies[0])))
		case k.Unknown && k.Coming+k.Room > 0:
			causes = append(causes, fmt.Sprintf("the size of the machines of group %s is unknown until the first one has joined", k.Group))
		case k.Unknown || fits(&c.footprint, &k.Resources):
			causes = append(causes, fmt.Sprintf("group %s %s", k.Group, cmp.Or(k.Why, fmt.Sprintf("may add only %d machines now", k.Room))))
		}
	}
	if causes == nil {
		causes = []string{"no group has machines that can hold it, and the nodes that can are full"}
	}
	return clip(strings.Join(causes, "; "))
}

// Amount returns a quantity with its unit.
func Amount(k resource.Kind, x float64) string {
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
