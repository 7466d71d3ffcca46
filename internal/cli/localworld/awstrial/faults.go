package awstrial

import (
	"fmt"
	"math"
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
		{"impair INSTANCE", "Let the status check of an instance fail, until a reboot", func(s *awsfake.Server, args []string) error {
			s.Impair(args[0], "impaired", "")
			return nil
		}},
		{"stock TYPE ZONE NUMBER", "Limit the instances of a type in a zone; -1 is without a limit", func(s *awsfake.Server, args []string) error {
			n, err := whole(args[2])
			if err == nil {
				s.SetStock(awsfake.Market{Type: args[0], Zone: args[1]}, n)
			}
			return err
		}},
		{"deny ACTION [RESOURCE]", "Refuse an action, for example SetDesiredCapacity, on a group, fleet, instance or the queue", func(s *awsfake.Server, args []string) error {
			s.Deny(args[0], strings.Join(args[1:], ""))
			return nil
		}},
		{"throttle ACTION NUMBER", "Throttle the next requests of an action", func(s *awsfake.Server, args []string) error {
			n, err := whole(args[1])
			if err == nil {
				s.Throttle(args[0], n)
			}
			return err
		}},
		{"drop ACTION NUMBER", "Carry out the next requests of an action, and send no response", func(s *awsfake.Server, args []string) error {
			n, err := whole(args[1])
			if err == nil {
				s.Drop(args[0], n)
			}
			return err
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

// each returns a fault of the instance in the first argument.
func each(cause func(*awsfake.Server, string)) func(*awsfake.Server, []string) error {
	return func(s *awsfake.Server, args []string) error {
		cause(s, args[0])
		return nil
	}
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

func whole(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < -1 || n > 1_000_000 {
		return 0, fmt.Errorf("%q is not a whole number from -1 to 1000000", text)
	}
	return n, nil
}
