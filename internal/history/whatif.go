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

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/platform/spelling"
)

// Override changes the policy of a recorded case.
type Override struct {
	Key   string // of a pool file, such as scaling_limits.max_capacity
	Value string // as in a pool file

	apply func(c *api.Case)
}

// keys returns, for each key that an override may have, what it copies from a case of that policy to a recorded one.
func keys() map[string]func(to, from *api.Case) {
	policy := func(f func(to, from *api.DecisionPolicy)) func(to, from *api.Case) {
		return func(to, from *api.Case) { f(&to.Input.Policy, &from.Input.Policy) }
	}
	return map[string]func(to, from *api.Case){
		"scaling_limits.min_capacity":      policy(func(to, from *api.DecisionPolicy) { to.Limits.Min = from.Limits.Min }),
		"scaling_limits.max_capacity":      policy(func(to, from *api.DecisionPolicy) { to.Limits.Max = from.Limits.Max }),
		"scaling_limits.max_weight_to_add": policy(func(to, from *api.DecisionPolicy) { to.Limits.MaxAdd = from.Limits.MaxAdd }),
		"scaling_limits.max_weight_to_remove": func(to, from *api.Case) {
			to.Input.Policy.Limits.MaxRemove, to.Limits.MaxWeight = from.Input.Policy.Limits.MaxRemove, from.Limits.MaxWeight
		},
		"autoscaling.setpoint": policy(func(to, from *api.DecisionPolicy) { to.Setpoint = from.Setpoint }),
		"autoscaling.target_capacity_margin": policy(func(to, from *api.DecisionPolicy) {
			to.MarginUp, to.MarginDown = from.MarginUp, from.MarginDown
		}),
		"autoscaling.margin_up":                              policy(func(to, from *api.DecisionPolicy) { to.MarginUp = from.MarginUp }),
		"autoscaling.margin_down":                            policy(func(to, from *api.DecisionPolicy) { to.MarginDown = from.MarginDown }),
		"autoscaling.combine":                                policy(func(to, from *api.DecisionPolicy) { to.Combine = from.Combine }),
		"autoscaling.excluded_resources":                     policy(func(to, from *api.DecisionPolicy) { to.Excluded = from.Excluded }),
		"autoscaling.cooldown.up":                            policy(func(to, from *api.DecisionPolicy) { to.Cooldown.Up = from.Cooldown.Up }),
		"autoscaling.cooldown.down":                          policy(func(to, from *api.DecisionPolicy) { to.Cooldown.Down = from.Cooldown.Down }),
		"autoscaling.budgets":                                policy(func(to, from *api.DecisionPolicy) { to.Budgets = from.Budgets }),
		"autoscaling.ignorance_max":                          policy(func(to, from *api.DecisionPolicy) { to.UnknownNeedMax = from.UnknownNeedMax }),
		"autoscaling.instance_loss_threshold":                policy(func(to, from *api.DecisionPolicy) { to.LossThreshold = from.LossThreshold }),
		"autoscaling.prevent_scale_down_after_capacity_loss": policy(func(to, from *api.DecisionPolicy) { to.LossLimit = from.LossLimit }),
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
	o.apply = func(c *api.Case) { transfer(c, &from) }
	return o, nil
}

// Redecide decides the recorded ticks from then on again, with the overrides. It calls visit with each tick that would
// have decided otherwise. If the overrides contradict the policy of every tick, it returns the error of the first. Each tick
// starts from its recorded state: no tick finds what an earlier one would have done.
func (p Pool) Redecide(ctx context.Context, from time.Time, overrides []Override, visit func(api.Redecided) error) (sum api.Comparison, err error) {
	total := 0.0
	var invalid error // of the first
	unreadable, err := p.Records(ctx, from, time.Time{}, func(r api.TickRecord) error {
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
	sum.Skipped += unreadable
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
func Again(r api.TickRecord, overrides []Override) (out api.Redecided, result api.CaseResult, err error) {
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
	if err := decide.ValidatePolicy(c.Input.Policy); err != nil {
		return out, result, fmt.Errorf("decide the tick of %s again: %w", r.At.Format(time.RFC3339), err)
	}
	result = resolve.Resolve(c).Result()
	out = api.Redecided{
		At: r.At, Before: c.Input.Capacity.Target + c.State.Offset, Target: r.Result.Target, Would: result.Target, By: result.Target - r.Result.Target,
	}
	for _, s := range result.Steps {
		if s.After != s.Before || out.Rule == "" && s.Rule == api.RuleTarget {
			out.Rule, out.Why = s.Rule, s.Why
		}
	}
	return out, result, nil
}
