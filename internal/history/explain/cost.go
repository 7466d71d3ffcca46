package explain

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/terminal"
	"github.com/weirkeeper/weirkeeper/internal/price"
)

// Money returns an amount for people: two digits after the point, or three significant ones of an amount below 1.
func Money(x float64) string {
	if x == 0 || x >= 1 {
		return strconv.FormatFloat(x, 'f', 2, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// hourlyCost returns the cost of an hour: "12.34 USD", "at least 3.20 USD" or "unknown".
func hourlyCost(c api.Cost) string {
	amount := Money(c.PerHour) + " " + c.Currency
	switch unpriced := c.Unpriced(); {
	case c.Failed != "" || len(unpriced) > 0 && c.PerHour == 0:
		return "unknown"
	case len(unpriced) > 0:
		return "at least " + amount
	}
	return amount
}

// CostLine returns the cost of an hour by cause, the largest first, and what is unknown about it.
func CostLine(c api.Cost) string {
	text := "cost per hour " + hourlyCost(c)
	causes := c.ByCause()
	var parts []string
	for _, cause := range slices.SortedFunc(maps.Keys(causes), func(x, y string) int { return cmp.Or(cmp.Compare(causes[y], causes[x]), strings.Compare(x, y)) }) {
		parts = append(parts, cause+" "+Money(causes[cause]))
	}
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	return text + unknownCost(c)
}

// unknownCost returns why a cost is unknown in part or completely, and what to do.
func unknownCost(c api.Cost) string {
	if c.Failed != "" {
		return "; the prices are unknown: " + c.Failed
	}
	if unpriced := c.Unpriced(); len(unpriced) > 0 {
		return "; " + price.Missing(c.Files, unpriced...)
	}
	return ""
}

func writeCost(w io.Writer, c *api.Cost) {
	if c == nil {
		return
	}
	fmt.Fprintf(w, "\ncost per hour: %s%s\n", hourlyCost(*c), unknownCost(*c))
	for _, line := range c.Aged {
		terminal.Problem(w, line)
	}
	for _, p := range c.Parts {
		hour := "unknown"
		if p.PerHour != nil {
			hour = Money(*p.PerHour)
		}
		fmt.Fprintf(w, "  %8s  %s %s, %s: %s\n", hour, p.Group, p.Market, p.CauseText(), machines(p.Machines))
	}
}

// machines returns a number of machines. A machine may be divided between causes.
func machines(n float64) string {
	text := strconv.FormatFloat(n, 'f', -1, 64)
	if whole := float64(int(n)); n != whole {
		text = strconv.FormatFloat(n, 'f', 2, 64)
	}
	if n == 1 {
		return text + " machine"
	}
	return text + " machines"
}
