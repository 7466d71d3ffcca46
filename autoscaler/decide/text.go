package decide

import (
	"math"
	"strconv"
	"strings"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/resource"
)

// num formats a quantity: at most two decimals, small and huge ones by their leading digits.
func num(x float64) string {
	if x == api.Unlimited {
		return "inf"
	}
	if a := math.Abs(x); a != 0 && a < 0.005 || a >= 1e15 || !finite(x) {
		return strconv.FormatFloat(x, 'g', 3, 64)
	}
	return trimmed(x, 2)
}

// percent formats a share, with at most one decimal.
func percent(share float64) string {
	if p := share * 100; math.Abs(p) < 1e15 {
		return trimmed(p, 1) + " %"
	}
	return num(share*100) + " %"
}

// distinct formats two different shares so that the texts differ.
func distinct(a, b float64) (string, string) {
	x, y := percent(a), percent(b)
	if x == y {
		return strconv.FormatFloat(a*100, 'g', -1, 64) + " %", strconv.FormatFloat(b*100, 'g', -1, 64) + " %"
	}
	return x, y
}

func trimmed(x float64, decimals int) string {
	s := strconv.FormatFloat(x, 'f', decimals, 64)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// amount formats the requested amount of one kind.
func amount(k resource.Kind, x float64) string {
	if k == resource.Mem || k == resource.Disk {
		return num(x) + " MB of " + k.String()
	}
	return num(x) + " " + k.String()
}

// amounts formats the requested amounts of all kinds.
func amounts(r resource.Request) string {
	var parts []string
	for _, k := range named(r) {
		x, _ := r.Get(k)
		parts = append(parts, amount(k, x))
	}
	if parts == nil {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// list joins names as a sentence does. Of more than four it returns the first and the number of the
// others.
func list(names []string) string {
	switch n := len(names); {
	case n == 0:
		return "no app"
	case n == 1:
		return names[0]
	case n <= 4:
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	default:
		return names[0] + " and " + strconv.Itoa(n-1) + " more"
	}
}

func kindNames(kinds []resource.Kind) []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.String()
	}
	return names
}

// longest is the maximum length of external text in a reason, in bytes.
const longest = 200

// OneLine makes external text fit for one line of a terminal and of the ledger: printable, and
// about 200 bytes at most.
func OneLine(s string) string {
	line := prose.Line(s, longest)
	if len(s) > longest {
		line += "..."
	}
	return line
}
