package awsfake

import (
	"fmt"
	"slices"
)

// targetGroup is a target group of load balancers.
type targetGroup struct {
	name, arn string
	targets   []registration // replaced, never modified
}

// registration is an instance that is registered as a target.
//
//	initial ──► healthy (or as the test sets) ──► draining ──► (gone)
type registration struct {
	id            string
	port          int // 0: that of the group
	state, reason string
}

// States of a target.
const (
	targetInitial  = "initial"
	targetHealthy  = "healthy"
	targetDraining = "draining"
	targetUnused   = "unused"
)

// groupPort is the port of every target group.
const groupPort = 80

func (g targetGroup) clone() targetGroup { return g }

func (g *targetGroup) find(id string, port int) int {
	return slices.IndexFunc(g.targets, func(t registration) bool { return t.id == id && t.port == port })
}

// set changes a target if it still exists.
func (g *targetGroup) set(id string, port int, state, reason string) {
	if n := g.find(id, port); n >= 0 {
		g.targets = slices.Clone(g.targets)
		g.targets[n].state, g.targets[n].reason = state, reason
	}
}

// targetGroup returns the group with that name or ARN, or nil.
func (w *world) targetGroup(of string) *targetGroup {
	return first(w.balanced, func(g *targetGroup) bool { return g.name == of || g.arn == of })
}

// balancing is the load balancing service.
type balancing struct{ *cloud }

func (c *balancing) addTargetGroup(name string) *targetGroup {
	c.serial++
	g := &targetGroup{name: name, arn: fmt.Sprintf("arn:aws:elasticloadbalancing:%s:%s:targetgroup/%s/%016x", c.config.Region, c.config.Account, name, c.serial)}
	c.balanced = append(c.balanced, g)
	return g
}

// register adds a target, or restores a draining one.
func (c *balancing) register(g *targetGroup, t registration) {
	if g == nil {
		return
	}
	t.state, t.reason = targetInitial, "Elb.RegistrationInProgress"
	if n := g.find(t.id, t.port); n < 0 {
		g.targets = append(slices.Clone(g.targets), t)
	} else if g.targets[n].state == targetDraining {
		g.set(t.id, t.port, t.state, t.reason)
	}
	c.after(c.config.Boot, func() {
		if n := g.find(t.id, t.port); n >= 0 && g.targets[n].state == targetInitial {
			g.set(t.id, t.port, targetHealthy, "")
		}
	})
}

// deregister begins to drain a target. A missing target is not an error.
func (c *balancing) deregister(g *targetGroup, id string, port int) {
	if g == nil || g.find(id, port) < 0 {
		return
	}
	g.set(id, port, targetDraining, "Target.DeregistrationInProgress")
	c.after(c.config.Drain, func() {
		if n := g.find(id, port); n >= 0 && g.targets[n].state == targetDraining {
			g.targets = slices.Delete(slices.Clone(g.targets), n, n+1)
		}
	})
}

// deregisterAll removes a terminated instance from all target groups.
func (c *balancing) deregisterAll(id string) {
	for _, g := range c.balanced {
		g.targets = slices.DeleteFunc(slices.Clone(g.targets), func(t registration) bool { return t.id == id })
	}
}

func balancerOperations() map[string]operation {
	change := []string{"TargetGroupArn", "Targets."}
	return map[string]operation{
		"DescribeTargetGroups": {do: describeTargetGroups, params: []string{"Names.", "TargetGroupArns.", "PageSize", "Marker"}},
		"DescribeTargetHealth": {do: describeTargetHealth, params: change},
		"RegisterTargets":      {do: registerTargets, write: true, on: "TargetGroupArn", params: change},
		"DeregisterTargets":    {do: deregisterTargets, write: true, on: "TargetGroupArn", params: change},
	}
}

type targetGroupsAnswer struct {
	Groups []targetGroupAnswer `xml:"TargetGroups>member"`
	Next   string              `xml:"NextMarker,omitempty"`
}

type targetGroupAnswer struct {
	ARN      string `xml:"TargetGroupArn"`
	Name     string `xml:"TargetGroupName"`
	Protocol string
	Port     int
	Type     string `xml:"TargetType"`
}

func describeTargetGroups(r *request) (any, error) {
	wanted := append(r.params.list("Names.member"), r.params.list("TargetGroupArns.member")...)
	for _, of := range wanted {
		if r.view.targetGroup(of) == nil {
			return nil, noTargetGroup()
		}
	}
	var found []targetGroupAnswer
	for _, g := range r.view.balanced {
		if len(wanted) == 0 || slices.Contains(wanted, g.name) || slices.Contains(wanted, g.arn) {
			found = append(found, targetGroupAnswer{g.arn, g.name, "HTTP", groupPort, "instance"})
		}
	}
	size, err := r.params.whole("PageSize", 400, 1, 400)
	if err != nil {
		return nil, err
	}
	part, next, err := page(found, r.pageSize(size), r.params["Marker"])
	return targetGroupsAnswer{part, next}, err
}

func noTargetGroup() error {
	return refuse("TargetGroupNotFound", "One or more target groups not found")
}

type targetHealthAnswer struct {
	Targets []targetAnswer `xml:"TargetHealthDescriptions>member"`
}

type targetAnswer struct {
	ID     string `xml:"Target>Id"`
	Port   int    `xml:"Target>Port"`
	Check  string `xml:"HealthCheckPort"`
	State  string `xml:"TargetHealth>State"`
	Reason string `xml:"TargetHealth>Reason,omitempty"`
	About  string `xml:"TargetHealth>Description,omitempty"`
}

// registrations returns the targets of a request.
func (p params) registrations() (out []registration, err error) {
	for n := 1; ; n++ {
		at := fmt.Sprintf("Targets.member.%d.", n)
		id, ok := p[at+"Id"]
		if !ok {
			return out, nil
		}
		port, err := p.whole(at+"Port", 0, 1, 65535)
		if err != nil {
			return nil, err
		}
		if port == groupPort {
			port = 0
		}
		out = append(out, registration{id: id, port: port})
	}
}

func describeTargetHealth(r *request) (any, error) {
	g := r.view.targetGroup(r.params["TargetGroupArn"])
	if g == nil {
		return nil, noTargetGroup()
	}
	asked, err := r.params.registrations()
	if err != nil {
		return nil, err
	}
	all := g.targets
	if len(asked) > 0 {
		all = nil
	}
	for _, t := range asked {
		if n := g.find(t.id, t.port); n >= 0 {
			all = append(all, g.targets[n])
			continue
		}
		t.state, t.reason = targetUnused, "Target.NotRegistered"
		all = append(all, t)
	}
	var out targetHealthAnswer
	for _, t := range all {
		if i := r.view.instance(t.id); i != nil && i.state == stopped && t.state != targetDraining {
			t.state, t.reason = targetUnused, "Target.InvalidState"
		}
		a := targetAnswer{ID: t.id, Port: max(t.port, groupPort), Check: "traffic-port", State: t.state, Reason: t.reason}
		if t.port != 0 {
			a.Port = t.port
		}
		if t.reason != "" {
			a.About = "See " + t.reason
		}
		out.Targets = append(out.Targets, a)
	}
	return out, nil
}

func registerTargets(r *request) (any, error) {
	g, targets, err := r.changes()
	if err != nil {
		return nil, err
	}
	for _, t := range targets {
		if i := r.instance(t.id); i == nil || i.state != running {
			return nil, refuse("InvalidTarget", "The following targets are not in a running state and cannot be registered: '%s'", t.id)
		}
	}
	for _, t := range targets {
		r.balancing.register(g, t)
	}
	return struct{}{}, nil
}

func deregisterTargets(r *request) (any, error) {
	g, targets, err := r.changes()
	if err != nil {
		return nil, err
	}
	for _, t := range targets {
		r.balancing.deregister(g, t.id, t.port)
	}
	return struct{}{}, nil
}
