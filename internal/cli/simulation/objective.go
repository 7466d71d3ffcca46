package simulation

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
	"github.com/weirkeeper/weirkeeper/internal/platform/spelling"
)

// objective is what a policy should come to: the least of one quantity, within bounds of others.
type objective struct {
	quantity string
	bounds   []bound
}

// bound is the most that a quantity may be.
type bound struct {
	quantity string
	most     float64
	text     string // as typed: "unmet<=2%"
}

// quantities are those of an objective. The value is the upper end of the interval over the seeds: a policy meets a bound only if
// that end does.
func quantities() map[string]func(api.Simulated) float64 {
	end := func(e api.Estimate) float64 { return e.Mean + e.Half }
	return map[string]func(api.Simulated) float64{
		"cost": func(r api.Simulated) float64 {
			if r.Cost == nil {
				return math.Inf(1)
			}
			return end(*r.Cost)
		},
		"unmet": func(r api.Simulated) float64 { return end(r.Unmet) },
		"unmet%": func(r api.Simulated) float64 {
			if r.Wanted <= 0 {
				return 0
			}
			return 100 * end(r.Unmet) / r.Wanted
		},
		"unused":        func(r api.Simulated) float64 { return r.UnusedBy["cpus"] },
		"wait":          func(r api.Simulated) float64 { return r.Waited },
		"launches":      func(r api.Simulated) float64 { return r.Launches },
		"changes":       func(r api.Simulated) float64 { return r.Changes },
		"interrupted":   func(r api.Simulated) float64 { return r.Interrupted },
		"disrupted":     func(r api.Simulated) float64 { return r.Disrupted },
		"machine-hours": func(r api.Simulated) float64 { return r.Hours },
		"failed":        func(r api.Simulated) float64 { return float64(r.Failed) },
	}
}

// quantityNames are the names of quantities as people type them.
var quantityNames = []string{"cost", "unmet", "unused", "wait", "launches", "changes", "interrupted", "disrupted", "machine-hours", "failed"}

// parseObjective parses "cost,unmet<=2%,wait<=10m".
func parseObjective(text string) (o objective, err error) {
	first, rest, more := strings.Cut(text, ",")
	if o.quantity, err = quantityNamed(strings.TrimSpace(first)); err != nil {
		return o, fmt.Errorf("--objective %.80q: %w", text, err)
	}
	for more {
		var item string
		item, rest, more = strings.Cut(rest, ",")
		b, err := parseBound(strings.TrimSpace(item))
		if err != nil {
			return o, fmt.Errorf("--objective %.80q: bound %.40q: %w", text, item, err)
		}
		o.bounds = append(o.bounds, b)
	}
	return o, nil
}

func quantityNamed(name string) (string, error) {
	if slices.Contains(quantityNames, name) {
		return name, nil
	}
	return "", fmt.Errorf("quantity %.40q is unknown%s; want one of %s, and bounds such as unmet<=2%%", name, spelling.DidYouMean(name, quantityNames), strings.Join(quantityNames, ", "))
}

func parseBound(text string) (b bound, err error) {
	name, value, found := strings.Cut(text, "<=")
	if !found {
		return b, errors.New("want QUANTITY<=VALUE")
	}
	b.text = text
	if b.quantity, err = quantityNamed(strings.TrimSpace(name)); err != nil {
		return b, err
	}
	value = strings.TrimSpace(value)
	if b.quantity == "wait" {
		d, err := time.ParseDuration(value)
		b.most = d.Seconds()
		return b, err
	}
	if share, percent := strings.CutSuffix(value, "%"); percent && b.quantity == "unmet" {
		b.quantity, value = "unmet%", share
	}
	b.most, err = strconv.ParseFloat(value, 64)
	if err != nil || !(b.most >= 0) {
		return b, fmt.Errorf("%.40q: want a number of at least 0", value)
	}
	return b, nil
}

// rank sets the rank of each row, and sorts the rows by it: first those that meet all bounds, by the quantity, then the others, by how
// much they miss in sum, as a part of each bound. It returns an error if no row meets all bounds.
func (o objective) rank(rows []api.Simulated) error {
	of := quantities()
	missed := map[string]float64{} // by policy
	for i := range rows {
		r := &rows[i]
		for _, b := range o.bounds {
			if x := of[b.quantity](*r); x > b.most {
				missed[r.Policy] += (x - b.most) / max(b.most, 1e-9)
				r.Misses = append(r.Misses, fmt.Sprintf("%s: it is %s", b.text, b.format(x)))
			}
		}
	}
	slices.SortStableFunc(rows, func(a, b api.Simulated) int {
		return cmp.Or(cmp.Compare(missed[a.Policy], missed[b.Policy]), cmp.Compare(of[o.quantity](a), of[o.quantity](b)))
	})
	for i := range rows {
		rows[i].Rank = i + 1
	}
	if len(rows) > 0 && len(rows[0].Misses) > 0 {
		return fmt.Errorf("no policy meets all bounds of the objective; the nearest is %s, which misses %s", rows[0].Policy, strings.Join(rows[0].Misses, ", "))
	}
	return nil
}

func (b bound) format(x float64) string {
	switch b.quantity {
	case "wait":
		return seconds.Short(time.Duration(x * float64(time.Second)).Round(time.Second))
	case "unmet%":
		return fmt.Sprintf("%.2f%%", x)
	}
	return fmt.Sprintf("%.2f", x)
}
