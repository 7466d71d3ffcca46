package awstest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// guard decides which requests are let in, and which get their answer.
type guard struct {
	throttle map[string]int // by action, "" is any
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

// spent takes one of the counted for the action, or for any, if there is one.
func spent(counts map[string]int, action string) bool {
	for _, of := range []string{action, ""} {
		if counts[of] > 0 {
			counts[of]--
			return true
		}
	}
	return false
}

// throttles says whether the request is one too many.
func (g *guard) throttles(action string, now time.Time) bool {
	if spent(g.throttle, action) {
		return true
	}
	for _, of := range []string{action, ""} {
		if b := g.buckets[of]; b != nil && !b.take(now) {
			return true
		}
	}
	return false
}

func (b *bucket) take(now time.Time) bool {
	b.tokens = min(b.Size, b.tokens+b.Refill*now.Sub(b.at).Seconds())
	b.at = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// target is something that a request works on.
type target struct {
	names []string // by any of which it may be denied
	arn   string
}

// denies returns the first target on which the action is not allowed.
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

// targets returns what a request works on.
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

// admit returns why a request is not let in, if so.
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

// lag is how reads are behind writes.
type lag struct {
	reads int
	time  time.Duration
	// old is how things were before the last write at the time at; served counts the
	// answers it gave, by action.
	old    *world
	at     time.Time
	served map[string]int
}

// remember keeps how things are, because a write is about to change them.
func (l *lag) remember(w *world, now time.Time) {
	if l.reads > 0 || l.time > 0 {
		l.old, l.at, l.served = w.clone(), now, map[string]int{}
	}
}

// view returns what a read is told of.
func (l *lag) view(action string, w *world, now time.Time) *world {
	if l.old == nil || l.served[action] >= l.reads && now.Sub(l.at) >= l.time {
		return w
	}
	l.served[action]++
	return l.old
}

// faults are the server's guard and lag, with the levers of a test.
type faults struct {
	*locked
	guard guard
	lag   lag
}

// Throttle refuses the next n requests of an action; "" is any action.
func (s *faults) Throttle(action string, n int) {
	s.do(func(*cloud) { s.guard.throttle[action] = n })
}

// Limit gives an action, or with "" all of them together, a full token bucket.
// It is refilled by the server's clock.
func (s *faults) Limit(action string, b Bucket) {
	s.do(func(c *cloud) { s.guard.buckets[action] = &bucket{Bucket: b, tokens: b.Size, at: c.now} })
}

// Deny refuses an action ("" any) on a resource (the name of a group, a fleet,
// an instance or the queue; "" any) until Allow. Describing has no resource.
func (s *faults) Deny(action, resource string) {
	s.do(func(*cloud) { s.guard.denied = append(s.guard.denied, denial{action, resource}) })
}

// Allow takes back all that was denied.
func (s *faults) Allow() { s.do(func(*cloud) { s.guard.denied = nil }) }

// Drop has the next n requests of an action ("" any) done, but cuts the
// connection in place of an answer.
func (s *faults) Drop(action string, n int) { s.do(func(*cloud) { s.guard.drop[action] = n }) }

// Lag has each action, after every write, answer its next reads as things were
// before the write.
func (s *faults) Lag(reads int) { s.do(func(*cloud) { s.lag.reads = reads }) }

// LagFor has reads be told how things were before the last write, until that
// much of the server's time has passed since.
func (s *faults) LagFor(d time.Duration) { s.do(func(*cloud) { s.lag.time = d }) }
