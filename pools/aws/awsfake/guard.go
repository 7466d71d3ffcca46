package awsfake

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// guard decides which requests are accepted, and which responses are sent.
type guard struct {
	throttle map[string]int // by action, "" is any action
	drop     map[string]int
	buckets  map[string]*bucket
	denied   []denial
}

type denial struct{ action, resource string }

type bucket struct {
	Bucket
	tokens float64
	at     time.Time
}

func newGuard() guard {
	return guard{throttle: map[string]int{}, drop: map[string]int{}, buckets: map[string]*bucket{}}
}

// spent uses up one count of the action, or of any action, and reports whether there was one.
func spent(counts map[string]int, action string) bool {
	for _, of := range []string{action, ""} {
		if counts[of] > 0 {
			counts[of]--
			return true
		}
	}
	return false
}

// throttles reports whether the request exceeds a limit.
func (g *guard) throttles(action string, now time.Time) bool {
	if spent(g.throttle, action) {
		return true
	}
	for _, of := range []string{action, ""} {
		if b := g.buckets[of]; b != nil && !b.takeToken(now) {
			return true
		}
	}
	return false
}

func (b *bucket) takeToken(now time.Time) bool {
	b.tokens = min(b.Size, b.tokens+b.Refill*now.Sub(b.at).Seconds())
	b.at = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// target is a resource of a request.
type target struct {
	names []string // each may be denied
	arn   string
}

// denies returns the first target for which the action is denied.
func (g *guard) denies(action string, targets []target) (arn string, denied bool) {
	for _, d := range g.denied {
		if d.action != action && d.action != "" {
			continue
		}
		if d.resource == "" {
			if len(targets) > 0 {
				arn = targets[0].arn
			}
			return arn, true
		}
		for _, t := range targets {
			if slices.Contains(t.names, d.resource) {
				return t.arn, true
			}
		}
	}
	return "", false
}

// targets returns the resources of a request.
func (c *cloud) targets(op operation, p params) []target {
	if op.on == "" {
		return nil
	}
	ids := p.list(op.on)
	if id, ok := p[op.on]; ok {
		ids = []string{id}
	}
	var out []target
	for _, id := range ids {
		out = append(out, c.target(id))
	}
	return out
}

func (c *cloud) target(id string) target {
	prefix := ":" + c.config.Region + ":" + c.config.Account + ":"
	switch i := c.instance(id); {
	case i != nil && c.group(i.owner) != nil && i.listed():
		return target{[]string{id, i.owner}, c.groupARN(i.owner)}
	case strings.HasPrefix(id, "i-"):
		return target{[]string{id}, "arn:aws:ec2" + prefix + "instance/" + id}
	case strings.HasPrefix(id, "sfr-"):
		return target{[]string{id}, "arn:aws:ec2" + prefix + "spot-fleet-request/" + id}
	case strings.HasPrefix(id, "eni-"):
		return target{[]string{id}, "arn:aws:ec2" + prefix + "network-interface/" + id}
	case strings.HasPrefix(id, "arn:"):
		return target{[]string{id}, id}
	case id == c.config.Queue || strings.Contains(id, "://"):
		return target{[]string{c.config.Queue}, "arn:aws:sqs" + prefix + c.config.Queue}
	}
	return target{[]string{id}, c.groupARN(id)}
}

func (c *cloud) groupARN(name string) string {
	return fmt.Sprintf("arn:aws:autoscaling:%s:%s:autoScalingGroup:930d940e-891e-4781-a11a-7b0acd480f03:autoScalingGroupName/%s", c.config.Region, c.config.Account, name)
}

// admit returns the error of a rejected request, or nil.
func (s *Server) admit(in incoming, op operation) error {
	svc := s.services[in.service]
	if s.guard.throttles(in.action, s.cloud.now) {
		return &svc.throttled
	}
	if arn, denied := s.guard.denies(in.action, s.cloud.targets(op, in.params)); denied {
		user := fmt.Sprintf("arn:aws:iam::%s:user/weir", s.cloud.config.Account)
		return &fault{http.StatusForbidden, svc.deniedCode, svc.denied(user, svc.name+":"+in.action, arn)}
	}
	if unknown := in.params.unknown(op.params); len(unknown) > 0 {
		return refuse("UnknownParameter", "The parameter %s is not recognized", strings.Join(unknown, ", "))
	}
	if in.service == "ec2" && in.params.truth("DryRun") {
		return &fault{http.StatusPreconditionFailed, "DryRunOperation", "Request would have succeeded, but DryRun flag is set."}
	}
	return nil
}

// lag is how late reads show writes.
type lag struct {
	reads int
	time  time.Duration
	// old is the state before the latest write, which was at the time at. served counts the
	// responses from old, by action.
	old    *world
	at     time.Time
	served map[string]int
}

// remember stores the state before a write.
func (l *lag) remember(w *world, now time.Time) {
	if l.reads > 0 || l.time > 0 {
		l.old, l.at, l.served = w.clone(), now, map[string]int{}
	}
}

// view returns the state for a read.
func (l *lag) view(action string, w *world, now time.Time) *world {
	if l.old == nil || l.served[action] >= l.reads && now.Sub(l.at) >= l.time {
		return w
	}
	l.served[action]++
	return l.old
}

// faults has the server's guard and lag, and the methods with which tests set them.
type faults struct {
	*locked
	guard guard
	lag   lag
}

// Throttle rejects the next n requests of an action. "" is any action.
func (s *faults) Throttle(action string, n int) {
	s.do(func(*cloud) { s.guard.throttle[action] = n })
}

// Limit sets a full token bucket for an action, or with "" for all actions together. The server's
// clock refills it.
func (s *faults) Limit(action string, b Bucket) {
	s.do(func(c *cloud) { s.guard.buckets[action] = &bucket{Bucket: b, tokens: b.Size, at: c.now} })
}

// Deny rejects an action on a resource until Allow. The resource is the name of a group, a fleet,
// an instance or the queue. "" is any action or resource. Describing requests have no resource.
func (s *faults) Deny(action, resource string) {
	s.do(func(*cloud) { s.guard.denied = append(s.guard.denied, denial{action, resource}) })
}

// Allow removes all denials.
func (s *faults) Allow() { s.do(func(*cloud) { s.guard.denied = nil }) }

// Drop carries out the next n requests of an action ("" is any), and closes the connection instead
// of a response.
func (s *faults) Drop(action string, n int) { s.do(func(*cloud) { s.guard.drop[action] = n }) }

// Lag lets the next reads of each action after a write return the state before the write.
func (s *faults) Lag(reads int) { s.do(func(*cloud) { s.lag.reads = reads }) }

// LagFor lets reads return the state before the latest write until that much time has passed on the
// server's clock.
func (s *faults) LagFor(d time.Duration) { s.do(func(*cloud) { s.lag.time = d }) }
