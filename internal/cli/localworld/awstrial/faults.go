package awstrial

import (
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
)

// fault is a fault of AWS that a command causes.
type fault struct {
	use   string // its name and its arguments; an optional one is in brackets
	short string
	cause func(s *awsfake.Server, args []string) error
}

func (f fault) name() string { return strings.Fields(f.use)[0] }

// accepts reports whether that many arguments fit.
func (f fault) accepts(n int) bool {
	words := strings.Fields(f.use)[1:]
	return n <= len(words) && n >= len(words)-strings.Count(f.use, "[")
}

// faults returns all faults.
func faults() []fault {
	return []fault{
		{"interrupt INSTANCE", "Warn about a Spot interruption, and end the instance after two minutes", each((*awsfake.Server).Interrupt)},
		{"rebalance INSTANCE", "Recommend to replace a Spot instance", each((*awsfake.Server).Rebalance)},
		{"lose INSTANCE", "End an instance without a request", each((*awsfake.Server).Lose)},
		{"stop INSTANCE", "Stop an instance, as its operating system does", each((*awsfake.Server).Stop)},
		{"impair INSTANCE", "Let the status check of an instance fail, until a reboot", each(func(s *awsfake.Server, id string) { s.Impair(id, "impaired", "") })},
		{"stock TYPE ZONE NUMBER", "Limit the instances of a type in a zone; -1 is without a limit", func(s *awsfake.Server, args []string) error {
			n, err := whole(args[2], -1)
			if err == nil {
				s.SetStock(awsfake.Market{Type: args[0], Zone: args[1]}, n)
			}
			return err
		}},
		{"deny ACTION [RESOURCE]", "Refuse an action, for example SetDesiredCapacity, on a group, fleet, instance or the queue", func(s *awsfake.Server, args []string) error {
			action, err := actionOf(s, args[0])
			if err == nil && len(args) > 1 {
				err = hasResource(s, action, args[1])
			}
			if err == nil {
				s.Deny(action, strings.Join(args[1:], ""))
			}
			return err
		}},
		{"throttle ACTION NUMBER", "Throttle the next requests of an action", func(s *awsfake.Server, args []string) error {
			return next(s, s.Throttle, args)
		}},
		{"drop ACTION NUMBER", "Carry out the next requests of an action, and send no response", func(s *awsfake.Server, args []string) error {
			return next(s, s.Drop, args)
		}},
		{"lag DURATION", "Let reads return the state of some time ago, for example 10s; 0s ends it", func(s *awsfake.Server, args []string) error {
			d, err := time.ParseDuration(args[0])
			if err != nil || d < 0 {
				return fmt.Errorf("%q is not a duration such as 10s", args[0])
			}
			s.LagFor(d)
			return nil
		}},
		{"metric NAMESPACE NAME VALUE [DIMENSIONS]", "Report another value of a metric each second, for example of QueueName=orders,Zone=a", setMetric},
		{"allow", "End all refusals", func(s *awsfake.Server, _ []string) error {
			s.Allow()
			return nil
		}},
	}
}

// each returns a fault of the instance in the first argument. One that ends or has ended has no faults.
func each(cause func(*awsfake.Server, string)) func(*awsfake.Server, []string) error {
	return func(s *awsfake.Server, args []string) error {
		here := func(i awsfake.Instance) bool { return i.ID == args[0] && i.State != "shutting-down" }
		if !slices.ContainsFunc(s.Instances(""), here) {
			return fmt.Errorf("no instance %s, or it ends: \"weir-local aws list\" has them", args[0])
		}
		cause(s, args[0])
		return nil
	}
}

// next causes a fault of the next requests of an action.
func next(s *awsfake.Server, cause func(action string, n int), args []string) error {
	action, err := actionOf(s, args[0])
	if err != nil {
		return err
	}
	n, err := whole(args[1], 0)
	if err == nil {
		cause(action, n)
	}
	return err
}

// actionOf returns the name of an action, which may have its service before it, as in an IAM policy. A fault of another action has
// no effect.
func actionOf(s *awsfake.Server, text string) (string, error) {
	action := text[strings.LastIndexByte(text, ':')+1:]
	all := s.Actions()
	if _, ok := all[action]; ok {
		return action, nil
	}
	return "", fmt.Errorf("the trial has no action %q: it has %s", text, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
}

// hasResource returns why a refusal of an action on a resource has no effect.
func hasResource(s *awsfake.Server, action, name string) error {
	if !s.Actions()[action] {
		return fmt.Errorf("a request of %s names no resource: leave out %q", action, name)
	}
	names := []string{path.Base(s.QueueURL())}
	for _, i := range s.Instances("") {
		names = append(names, i.ID, i.Owner)
	}
	if slices.Contains(names, name) || strings.HasPrefix(name, "eni-") || strings.HasPrefix(name, "arn:") || s.Owns(name) {
		return nil
	}
	return fmt.Errorf("no group, fleet, instance or queue %q: \"weir-local aws list\" has them", name)
}

// setMetric sets the value that a metric reports.
func setMetric(s *awsfake.Server, args []string) error {
	value, err := strconv.ParseFloat(args[2], 64)
	if err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
		return fmt.Errorf("%q is not a number", args[2])
	}
	m := awsfake.Metric{Namespace: args[0], Name: args[1], Dimensions: map[string]string{}}
	if len(args) > 3 {
		for pair := range strings.SplitSeq(args[3], ",") {
			name, of, ok := strings.Cut(pair, "=")
			if !ok || name == "" || of == "" {
				return fmt.Errorf("%q: want dimensions such as QueueName=orders,Zone=a", args[3])
			}
			m.Dimensions[name] = of
		}
	}
	s.SetLevel(m, value)
	return nil
}

func whole(text string, least int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > 1_000_000 {
		return 0, fmt.Errorf("%q is not a whole number from %d to 1000000", text, least)
	}
	return n, nil
}
