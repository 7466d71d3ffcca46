package builtin

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/signals"
)

// need is the amount of a kind that is needed, before headroom.
type need struct {
	value float64
	least float64 // minimum of the request, including headroom
	why   string  // explanation of value
	known bool
}

// answer requests the needed amount of each kind, with headroom and within bounds, and explains it.
func answer(ctx context.Context, in signals.Input, of func(resource.Kind) (need, error)) (resource.Request, error) {
	headroom, err := factor(in, "headroom", 1)
	if err != nil {
		return resource.Request{}, err
	}
	var request resource.Request
	var why []string
	for _, kind := range []resource.Kind{resource.CPUs, resource.Mem, resource.Disk} {
		n, err := of(kind)
		if err != nil {
			return resource.Request{}, err
		}
		if !n.known {
			why = append(why, kind.String()+" unknown")
			continue
		}
		x := max(n.least, headroom*n.value)
		request = request.With(kind, x)
		text := fmt.Sprintf("%s %.6g: %.6g * %s", kind, x, headroom, n.why)
		if x > headroom*n.value {
			text += fmt.Sprintf(", at least %.6g", n.least)
		}
		why = append(why, text)
	}
	if request.IsEmpty() {
		return resource.Request{}, fmt.Errorf("%s: %w", strings.Join(why, ", "), signals.ErrNoOpinion)
	}
	signals.Explain(ctx, "%s", strings.Join(why, "; "))
	return request, nil
}

// factor returns a parameter that must be a number above 0.
func factor(in signals.Input, name string, fallback float64) (float64, error) {
	x, err := in.Parameters.Float(name, fallback)
	if err != nil {
		return 0, err
	}
	if !(x > 0) || math.IsInf(x, 0) {
		return 0, fmt.Errorf("parameter %q is %v, want a factor above 0", name, x)
	}
	return x, nil
}
