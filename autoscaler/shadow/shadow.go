// Package shadow compares the responses of a candidate and of the signal to the same windows, and
// describes the differences.
//
// [Compare] is the entry point: two responses in, a text out. It is deterministic, and may be used
// concurrently.
//
// A tick calls it for each app with a shadow. The package is pure. Its result changes no decision.
package shadow

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/weirkeeper/weirkeeper/resource"
)

// Response is the response of one process.
type Response struct {
	Verdict string           // "value", "no_opinion" or "stale"
	Request resource.Request // empty unless the verdict is a value
}

// Compare returns how the candidate's response differs from the signal's own, or an empty string if
// they agree. They agree if their verdicts are equal and, for each kind, both have no amount, or
// amounts that differ by at most tolerance times the own amount. Absent is not zero. A tolerance
// that is not positive counts as 0.
//
// The text has one part for each different kind, in their order: "cpus 4 -> 5 (+25 %, tolerance 10
// %), mem 512 -> absent".
func Compare(own, candidate Response, tolerance float64) string {
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

// num formats an amount so that different amounts have different texts.
func num(x float64) string { return strconv.FormatFloat(x, 'g', 12, 64) }

// percent formats a share with three leading digits.
func percent(share float64) string { return strconv.FormatFloat(share*100, 'g', 3, 64) }
