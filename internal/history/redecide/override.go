package redecide

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/platform/spelling"
)

// Override changes the policy of a recorded case.
type Override func(c *api.Case)

// transfers returns, for each key that an override may have, what it copies from a case of that policy to a recorded one.
func transfers() map[string]func(to, from *api.Case) {
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
		"autoscaling.margin_up":          policy(func(to, from *api.DecisionPolicy) { to.MarginUp = from.MarginUp }),
		"autoscaling.margin_down":        policy(func(to, from *api.DecisionPolicy) { to.MarginDown = from.MarginDown }),
		"autoscaling.combine":            policy(func(to, from *api.DecisionPolicy) { to.Combine = from.Combine }),
		"autoscaling.excluded_resources": policy(func(to, from *api.DecisionPolicy) { to.Excluded = from.Excluded }),
		"autoscaling.cooldown.up":        policy(func(to, from *api.DecisionPolicy) { to.Cooldown.Up = from.Cooldown.Up }),
		"autoscaling.cooldown.down":      policy(func(to, from *api.DecisionPolicy) { to.Cooldown.Down = from.Cooldown.Down }),
		"autoscaling.distribution": policy(func(to, from *api.DecisionPolicy) {
			to.Distribution, to.InterruptedWork = from.Distribution, cmp.Or(to.InterruptedWork, from.InterruptedWork)
		}),
		"autoscaling.max_share":                              policy(func(to, from *api.DecisionPolicy) { to.MaxShare = from.MaxShare }),
		"autoscaling.interrupted_work":                       policy(func(to, from *api.DecisionPolicy) { to.InterruptedWork = from.InterruptedWork }),
		"autoscaling.budgets":                                policy(func(to, from *api.DecisionPolicy) { to.Budgets = from.Budgets }),
		"autoscaling.ignorance_max":                          policy(func(to, from *api.DecisionPolicy) { to.UnknownNeedMax = from.UnknownNeedMax }),
		"autoscaling.instance_loss_threshold":                policy(func(to, from *api.DecisionPolicy) { to.LossThreshold = from.LossThreshold }),
		"autoscaling.prevent_scale_down_after_capacity_loss": policy(func(to, from *api.DecisionPolicy) { to.LossLimit = from.LossLimit }),
	}
}

// OverrideKeys returns the keys that an override may have, in order.
func OverrideKeys() []string { return slices.Sorted(maps.Keys(transfers())) }

// widePolicy has a value for each required key, wide enough for any override.
const widePolicy = `scaling_limits: {min_capacity: 0, max_capacity: inf, max_weight_to_add: inf, max_weight_to_remove: inf}
`

// ParseOverride parses KEY=VALUE. The value is that of a pool file, with its rules.
func ParseOverride(text string) (Override, error) {
	key, value, ok := strings.Cut(text, "=")
	transfer := transfers()[key]
	switch {
	case !ok || value == "":
		return nil, fmt.Errorf("%.80q: want KEY=VALUE, such as scaling_limits.max_capacity=40", text)
	case transfer == nil:
		return nil, fmt.Errorf("key %.80q changes no recorded decision%s; want one of %s", key, spelling.DidYouMean(key, OverrideKeys()), strings.Join(OverrideKeys(), ", "))
	case strings.ContainsAny(value, "\r\n#"):
		return nil, fmt.Errorf("value of %s: want it on one line, without #", key)
	}
	block, rest, _ := strings.Cut(key, ".")
	line := fmt.Sprintf("%s: %s", strings.ReplaceAll(rest, ".", ": {"), value) + strings.Repeat("}", strings.Count(rest, "."))
	file := widePolicy + block + ": {" + line + "}\n"
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
		return nil, fmt.Errorf("value of %s: %w", key, err)
	}
	return func(c *api.Case) { transfer(c, &from) }, nil
}
