package fit

import (
	"math"
	"slices"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// PerMachine returns how many copies of a footprint an empty machine of a size holds; MaxInt if the footprint is zero.
func PerMachine(footprint, size resource.Vector) int {
	n := math.Inf(1)
	for k, x := range footprint {
		if x > 0 {
			n = min(n, math.Floor((size[k]+resource.Slack)/x))
		}
	}
	if n >= math.MaxInt32 {
		return math.MaxInt
	}
	return int(n)
}

// Most returns how many copies of a footprint fit on machines of these kinds with a weight of at most `weight` in total, if nothing else
// runs on them; MaxInt if there is no bound. Each group has one kind, and Room is how many machines it may have in total. The kind
// that holds most per weight goes first.
func Most(footprint resource.Vector, kinds []api.PlacesKind, weight float64) (copies int) {
	density := func(k api.PlacesKind) float64 { return float64(PerMachine(footprint, k.Resources)) / k.Weight }
	kinds = slices.Clone(kinds)
	slices.SortStableFunc(kinds, func(a, b api.PlacesKind) int {
		switch x, y := density(a), density(b); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	for _, k := range kinds {
		per, machines := PerMachine(footprint, k.Resources), min(float64(k.Room), math.Floor((weight+resource.Slack)/k.Weight))
		if per == 0 || machines <= 0 {
			continue
		}
		if float64(per)*machines >= math.MaxInt32 {
			return math.MaxInt
		}
		copies += per * int(machines)
		weight -= machines * k.Weight
	}
	return copies
}
