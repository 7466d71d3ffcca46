package decide

import (
	"errors"
	"fmt"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// ValidatePolicy returns all mistakes of p, joined, or nil. An empty Combine is Sum.
func ValidatePolicy(p api.DecisionPolicy) error {
	var problems []error
	report := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	report(p.Setpoint > 0 && p.Setpoint <= 1, "setpoint is %v: want more than 0 and at most 1", p.Setpoint)
	report(finite(p.MarginUp) && p.MarginUp >= 0, "margin_up is %v: want a number of at least 0", p.MarginUp)
	report(finite(p.MarginDown) && p.MarginDown >= 0, "margin_down is %v: want a number of at least 0", p.MarginDown)
	for _, k := range p.Excluded {
		report(int(k) < resource.Count, "excluded: %v is not a resource", k)
	}
	report(p.Combine == "" || p.Combine == api.CombineSum || p.Combine == api.CombineMax, "combine is %q: want sum or max", p.Combine)
	report(p.Period >= 0, "period is %v: want at least 0", p.Period)
	for i, b := range p.Budgets {
		if err := validateBudget(b); err != nil {
			problems = append(problems, fmt.Errorf("budgets[%d]: %w", i, err))
		}
	}
	report(p.Cooldown.Up >= 0, "cooldown up is %v: want at least 0", p.Cooldown.Up)
	report(p.Cooldown.Down >= 0, "cooldown down is %v: want at least 0", p.Cooldown.Down)
	report(p.UnknownNeedMax >= 0, "ignorance_max is %v: want at least 0", p.UnknownNeedMax)
	report(p.LossThreshold >= 0, "instance_loss_threshold is %d: want at least 0", p.LossThreshold)
	report(p.Distribution == "" || p.Distribution == api.DistributeCheapest, "distribution is %q: want %s, or nothing", p.Distribution, api.DistributeCheapest)
	report(p.MaxShare >= 0 && p.MaxShare <= 1, "max_share is %v: want 0 to 1", p.MaxShare)
	report(p.InterruptedWork >= 0, "interrupted_work is %v: want at least 0", p.InterruptedWork)
	return errors.Join(append(problems, validateLimits(p.Limits))...)
}

// validateBudget returns the first mistake of b, or nil.
func validateBudget(b api.ChangeBudget) error {
	switch {
	case b.Direction != api.DirectionUp && b.Direction != api.DirectionDown:
		return fmt.Errorf("direction is %q: want up or down", b.Direction)
	case b.Within <= 0:
		return fmt.Errorf("within is %v: want more than 0", b.Within)
	case !finite(b.Weight) || b.Weight < 0:
		return fmt.Errorf("weight is %v: want a number of at least 0", b.Weight)
	case b.Weight == 0 && !(b.Share > 0 && b.Share <= 1):
		return fmt.Errorf("share is %v: want more than 0 and at most 1", b.Share)
	}
	return nil
}

// validateLimits returns all mistakes of l, joined, or nil.
func validateLimits(l api.TargetLimits) error {
	var problems []error
	report := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	report(finite(l.Min) && l.Min >= 0, "min_capacity is %v: want a number of at least 0", l.Min)
	report(finite(l.Max) && l.Max >= 0, "max_capacity is %v: want a number of at least 0", l.Max)
	report(!(l.Min > l.Max), "min_capacity %v is above max_capacity %v", l.Min, l.Max)
	report(finite(l.MaxAdd) && l.MaxAdd > 0, "max_weight_to_add is %v: want a number above 0", l.MaxAdd)
	report(finite(l.MaxRemove) && l.MaxRemove >= 0, "max_weight_to_remove is %v: want a number of at least 0", l.MaxRemove)
	return errors.Join(problems...)
}
