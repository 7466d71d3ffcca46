package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/spelling"
)

// Override changes the policy of a recorded case.
type Override struct {
	Key   string // of a pool file, such as scaling_limits.max_capacity
	Value string // as in a pool file

	apply func(c *resolve.Case)
}

// keys returns, for each key that an override may have, what it copies from a case of that policy to a recorded one.
func keys() map[string]func(to, from *resolve.Case) {
	policy := func(f func(to, from *decide.Policy)) func(to, from *resolve.Case) {
		return func(to, from *resolve.Case) { f(&to.Input.Policy, &from.Input.Policy) }
	}
	return map[string]func(to, from *resolve.Case){
		"scaling_limits.min_capacity":      policy(func(to, from *decide.Policy) { to.Limits.Min = from.Limits.Min }),
		"scaling_limits.max_capacity":      policy(func(to, from *decide.Policy) { to.Limits.Max = from.Limits.Max }),
		"scaling_limits.max_weight_to_add": policy(func(to, from *decide.Policy) { to.Limits.MaxAdd = from.Limits.MaxAdd }),
		"scaling_limits.max_weight_to_remove": func(to, from *resolve.Case) {
			to.Input.Policy.Limits.MaxRemove, to.Limits.MaxWeight = from.Input.Policy.Limits.MaxRemove, from.Limits.MaxWeight
		},
		"autoscaling.setpoint": policy(func(to, from *decide.Policy) { to.Setpoint = from.Setpoint }),
		"autoscaling.target_capacity_margin": policy(func(to, from *decide.Policy) {
			to.MarginUp, to.MarginDown = from.MarginUp, from.MarginDown
		}),
		"autoscaling.margin_up":                              policy(func(to, from *decide.Policy) { to.MarginUp = from.MarginUp }),
		"autoscaling.margin_down":                            policy(func(to, from *decide.Policy) { to.MarginDown = from.MarginDown }),
		"autoscaling.combine":                                policy(func(to, from *decide.Policy) { to.Combine = from.Combine }),
		"autoscaling.excluded_resources":                     policy(func(to, from *decide.Policy) { to.Excluded = from.Excluded }),
		"autoscaling.cooldown.up":                            policy(func(to, from *decide.Policy) { to.Cooldown.Up = from.Cooldown.Up }),
		"autoscaling.cooldown.down":                          policy(func(to, from *decide.Policy) { to.Cooldown.Down = from.Cooldown.Down }),
		"autoscaling.budgets":                                policy(func(to, from *decide.Policy) { to.Budgets = from.Budgets }),
		"autoscaling.ignorance_max":                          policy(func(to, from *decide.Policy) { to.UnknownNeedMax = from.UnknownNeedMax }),
		"autoscaling.instance_loss_threshold":                policy(func(to, from *decide.Policy) { to.LossThreshold = from.LossThreshold }),
		"autoscaling.prevent_scale_down_after_capacity_loss": policy(func(to, from *decide.Policy) { to.LossLimit = from.LossLimit }),
	}
}

// Keys returns the keys that an override may have, in order.
func Keys() []string { return slices.Sorted(maps.Keys(keys())) }

// base has a value for each required key, wide enough for any override.
const base = `scaling_limits: {min_capacity: 0, max_capacity: inf, max_weight_to_add: inf, max_weight_to_remove: inf}
`

// ParseOverride parses KEY=VALUE. The value is that of a pool file, with its rules.
func ParseOverride(text string) (Override, error) {
	key, value, ok := strings.Cut(text, "=")
	o := Override{Key: key, Value: value}
	transfer := keys()[key]
	switch {
	case !ok || value == "":
		return o, fmt.Errorf("%.80q: want KEY=VALUE, such as scaling_limits.max_capacity=40", text)
	case transfer == nil:
		return o, fmt.Errorf("key %.80q changes no recorded decision%s; want one of %s", key, spelling.DidYouMean(key, Keys()), strings.Join(Keys(), ", "))
	case strings.ContainsAny(value, "\r\n#"):
		return o, fmt.Errorf("value of %s: want it on one line, without #", key)
	}
	block, rest, _ := strings.Cut(key, ".")
	line := fmt.Sprintf("%s: %s", strings.ReplaceAll(rest, ".", ": {"), value) + strings.Repeat("}", strings.Count(rest, "."))
	file := base + block + ": {" + line + "}\n"
	if block == "scaling_limits" {
		limits := map[string]string{"min_capacity": "0", "max_capacity": "inf", "max_weight_to_add": "inf", "max_weight_to_remove": "inf"}
		limits[rest] = value
		file = "scaling_limits:\n"
		for _, k := range slices.Sorted(maps.Keys(limits)) {
			file += "  " + k + ": " + limits[k] + "\n"
		}
	}
	from, err := config.Policy([]byte(file))
	if err != nil {
		return o, fmt.Errorf("value of %s: %w", key, err)
	}
	o.apply = func(c *resolve.Case) { transfer(c, &from) }
	return o, nil
}

// Redecided is one tick that was decided again.
type Redecided struct {
	At     time.Time   `json:"at"`
	Before float64     `json:"before"` // target before the tick
	Target float64     `json:"target"` // that the tick decided
	Would  float64     `json:"would"`  // with the overrides
	By     float64     `json:"by"`     // Would - Target
	Rule   decide.Rule `json:"rule"`   // that would have set the target
	Why    string      `json:"why"`
}

// Comparison sums up ticks that were decided again.
type Comparison struct {
	Ticks   int `json:"ticks"`   // with a decision of this schema
	Skipped int `json:"skipped"` // without one: paused, failed, or of another version
	// Invalid ticks have a policy that the overrides contradict. Problem is that of the first one.
	Invalid   int    `json:"invalid,omitempty"`
	Problem   string `json:"problem,omitempty"`
	Otherwise int    `json:"otherwise"` // would have decided otherwise
	// Most and Least are the largest differences up and down.
	Most  float64 `json:"most"`
	Least float64 `json:"least"`
	// Mean is the mean difference of all Ticks.
	Mean float64 `json:"mean"`
}

// Redecide decides the recorded ticks from then on again, with the overrides. It calls visit with each tick that would
// have decided otherwise. If the overrides contradict the policy of every tick, it returns the error of the first. Each tick
// starts from its recorded state: no tick finds what an earlier one would have done.
func (p Pool) Redecide(ctx context.Context, from time.Time, overrides []Override, visit func(Redecided) error) (sum Comparison, err error) {
	total := 0.0
	var invalid error // of the first
	err = p.Records(ctx, from, func(data []byte) error {
		r, err := explain.Read(data)
		if err != nil {
			sum.Skipped++
			return nil
		}
		one, _, err := Again(r, overrides)
		if errors.Is(err, ErrNotAgain) {
			sum.Skipped++
			return nil
		}
		if err != nil {
			invalid = cmp.Or(invalid, err)
			sum.Invalid++
			return nil
		}
		sum.Ticks++
		if one.By == 0 {
			return nil
		}
		sum.Otherwise++
		sum.Most, sum.Least = max(sum.Most, one.By), min(sum.Least, one.By)
		total += one.By
		return visit(one)
	})
	if sum.Ticks > 0 {
		sum.Mean = total / float64(sum.Ticks)
	}
	if invalid != nil {
		sum.Problem = invalid.Error()
		if err == nil && sum.Ticks == 0 {
			err = invalid
		}
	}
	return sum, err
}

// ErrNotAgain: a record has no decision that this weir can repeat. It is paused, failed, a dry run or of another version.
var ErrNotAgain = errors.New("the tick has no decision that can be repeated")

// Again decides a recorded tick again with the overrides, and returns the result with all its steps. It changes nothing
// in the record. The error wraps ErrNotAgain if the record has no decision to repeat.
func Again(r autoscaler.Record, overrides []Override) (out Redecided, result resolve.Result, err error) {
	if r.Schema != resolve.Schema || r.Case == nil || r.Result == nil || r.DryRun || r.Paused != nil {
		return out, result, ErrNotAgain
	}
	c := *r.Case
	for _, o := range overrides {
		if o.apply == nil {
			return out, result, errors.New("decide again: an override was not parsed")
		}
		o.apply(&c)
	}
	if err := c.Input.Policy.Validate(); err != nil {
		return out, result, fmt.Errorf("decide the tick of %s again: %w", r.At.Format(time.RFC3339), err)
	}
	result = c.Resolve().Result()
	out = Redecided{
		At: r.At, Before: c.Input.Capacity.Target + c.State.Offset, Target: r.Result.Target, Would: result.Target, By: result.Target - r.Result.Target,
	}
	for _, s := range result.Steps {
		if s.After != s.Before || out.Rule == "" && s.Rule == decide.RuleTarget {
			out.Rule, out.Why = s.Rule, s.Why
		}
	}
	return out, result, nil
}
