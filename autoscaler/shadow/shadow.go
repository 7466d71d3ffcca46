// Package shadow compares what a candidate answers with what the signal itself
// answers to the same windows, and says in words where they differ.
//
// [Compare] is the whole of it: two answers in, a text out, and the same text for
// the same answers. Everything is a value and may be used concurrently.
package shadow

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/weirkeeper/weirkeeper/resource"
)

// Answer is what one process said.
type Answer struct {
	Verdict string           // its word for what the answer is worth: "value", "no_opinion", "stale"
	Request resource.Request // empty unless the verdict is a value
}

// Compare returns how the candidate's answer differs from the signal's own; empty
// if they agree. They agree if their verdicts are the same word and, kind by
// kind, both name none, or both an amount and those differ by at most tolerance
// times the own one. Absent is not zero, and a tolerance that is not above 0 is 0.
//
// The text has a part for each kind that differs, in their order:
// "cpus 4 -> 5 (+25 %, tolerance 10 %), mem 512 -> absent".
func Compare(own, candidate Answer, tolerance float64) string {
	if own.Verdict != candidate.Verdict {
		return fmt.Sprintf("verdict %s -> %s", own.Verdict, candidate.Verdict)
	}
	if !(tolerance > 0) {
		tolerance = 0
	}
	var parts []string
	for _, k := range resource.Kinds() {
		x, named := own.Request.Get(k)
		y, also := candidate.Request.Get(k)
		switch {
		case !named && !also, named && also && agree(x, y, tolerance):
		case !named:
			parts = append(parts, fmt.Sprintf("%s absent -> %s", k, num(y)))
		case !also:
			parts = append(parts, fmt.Sprintf("%s %s -> absent", k, num(x)))
		default:
			parts = append(parts, fmt.Sprintf("%s %s -> %s (%s)", k, num(x), num(y), change(x, y, tolerance)))
		}
	}
	return strings.Join(parts, ", ")
}

// agree reports whether y is within the tolerance of x.
func agree(x, y, tolerance float64) bool {
	return math.Abs(y-x) <= tolerance*x+resource.Slack*max(x, y)
}

func change(x, y, tolerance float64) string {
	if x == 0 {
		return "from nothing"
	}
	sign := ""
	if y > x {
		sign = "+"
	}
	share := min((y-x)/x, math.MaxFloat64/100)
	return fmt.Sprintf("%s%s %%, tolerance %s %%", sign, percent(share), percent(tolerance))
}

// num prints an amount so that two that differ look different.
func num(x float64) string { return strconv.FormatFloat(x, 'g', 12, 64) }

// percent prints a share by its three leading digits.
func percent(share float64) string { return strconv.FormatFloat(share*100, 'g', 3, 64) }
