package aws

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/weirkeeper/weirkeeper/pools"
)

// namesAsked is how many target groups one request names at most.
const namesAsked = 20

// traffic asks load balancers how their targets are: the target groups of these
// names, or without any those of the pool's groups.
func (p *Provider) traffic(ctx context.Context, names []string, found map[string]*inspected) {
	arns, err := p.targetGroups(ctx, names)
	if err != nil {
		unseen(found, err)
		return
	}
	for _, arn := range arns {
		targets, err := p.targets(ctx, arn)
		if err != nil {
			p.mu.Lock()
			clear(p.named) // the name may have another group now
			p.mu.Unlock()
			unseen(found, err)
			return
		}
		judge(arn, targets, found)
	}
}

// unseen says of all that nothing is known of their targets.
func unseen(found map[string]*inspected, err error) {
	for _, i := range found {
		i.Traffic = pools.Sight{Why: clip(err.Error())}
	}
}

// targetGroups returns the ARNs of those of these names, or of all that the groups'
// instances are in.
func (p *Provider) targetGroups(ctx context.Context, names []string) ([]string, error) {
	if len(names) == 0 {
		var arns []string
		for _, g := range p.all() {
			arns = append(arns, g.balancers()...)
		}
		slices.Sort(arns)
		return slices.Compact(arns), nil
	}
	arns, err := p.resolve(ctx, names)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watched = arns
	return arns, nil
}

// resolve returns the ARNs of target groups; Amazon is asked for a name once.
func (p *Provider) resolve(ctx context.Context, names []string) ([]string, error) {
	var arns, unknown []string
	p.mu.Lock()
	for _, name := range names {
		if arn := p.named[name]; strings.HasPrefix(name, "arn:") {
			arns = append(arns, name)
		} else if arn != "" {
			arns = append(arns, arn)
		} else {
			unknown = append(unknown, name)
		}
	}
	p.mu.Unlock()
	for some := range slices.Chunk(unknown, namesAsked) {
		err := p.aws.pages(ctx, "elasticloadbalancing:DescribeTargetGroups", strings.Join(some, ", "), func(token *string) (*string, error) {
			out, err := p.aws.elasticloadbalancing.DescribeTargetGroups(ctx, &elb.DescribeTargetGroupsInput{Names: some, Marker: token})
			if err != nil {
				return nil, err
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			for _, g := range out.TargetGroups {
				arns = append(arns, aws.ToString(g.TargetGroupArn))
				p.named[aws.ToString(g.TargetGroupName)] = aws.ToString(g.TargetGroupArn)
			}
			return out.NextMarker, nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(arns)
	return slices.Compact(arns), nil
}

// targets reads all targets of a group; Amazon has no pages here.
func (p *Provider) targets(ctx context.Context, arn string) (targets []elbtypes.TargetHealthDescription, err error) {
	err = p.aws.read(ctx, "elasticloadbalancing:DescribeTargetHealth", "target group "+groupName(arn), func() error {
		out, err := p.aws.elasticloadbalancing.DescribeTargetHealth(ctx, &elb.DescribeTargetHealthInput{TargetGroupArn: &arn})
		if err == nil {
			targets = out.TargetHealthDescriptions
		}
		return err
	})
	return targets, err
}

// groupName is the name of a target group, which its ARN has.
func groupName(arn string) string {
	if parts := strings.Split(arn, "/"); len(parts) == 3 {
		return parts[1]
	}
	return arn
}

// judge takes over what a target group says of our instances. If each of several
// fails there, it says nothing of any: then what is before them is rather at fault.
func judge(arn string, targets []elbtypes.TargetHealthDescription, found map[string]*inspected) {
	said := make(map[string]pools.Sight)
	fit, unfit := 0, 0
	for _, t := range targets {
		id := ""
		if t.Target != nil {
			id = aws.ToString(t.Target.Id)
		}
		if found[id] == nil {
			continue
		}
		s := targetSight(groupName(arn), t.TargetHealth)
		said[id] = worse(said[id], s)
	}
	for _, s := range said {
		switch s.Fitness {
		case pools.Fit:
			fit++
		case pools.Unfit:
			unfit++
		}
	}
	for id, s := range said {
		if fit == 0 && unfit > 1 && s.Fitness == pools.Unfit {
			s = pools.Sight{Why: fmt.Sprintf("elb %s: all of %d targets fail; it may be the load balancer", groupName(arn), unfit)}
		}
		found[id].Traffic = worse(found[id].Traffic, s)
	}
}

// worse returns what counts of two sights: that it is unfit, else that it is fit,
// else the first that says anything.
func worse(a, b pools.Sight) pools.Sight {
	for _, f := range []pools.Fitness{pools.Unfit, pools.Fit} {
		if a.Fitness == f {
			return a
		}
		if b.Fitness == f {
			return b
		}
	}
	return cmp.Or(a, b)
}

// targetSight reads the health of one target. Only what the checks of the target
// itself found counts.
func targetSight(group string, h *elbtypes.TargetHealth) pools.Sight {
	if h == nil {
		return pools.Sight{}
	}
	why := clip(fmt.Sprintf("elb %s: %s", group, cmp.Or(string(h.Reason), string(h.State))))
	switch h.State {
	case elbtypes.TargetHealthStateEnumHealthy:
		return pools.Sight{Fitness: pools.Fit}
	case elbtypes.TargetHealthStateEnumUnhealthy, elbtypes.TargetHealthStateEnumUnhealthyDraining:
		switch h.Reason {
		case elbtypes.TargetHealthReasonEnumResponseCodeMismatch, elbtypes.TargetHealthReasonEnumTimeout,
			elbtypes.TargetHealthReasonEnumFailedHealthChecks:
			return pools.Sight{Fitness: pools.Unfit, Why: why}
		}
	}
	return pools.Sight{Why: why}
}

// balancers returns the ARNs of the target groups that the group's instances are in.
func (g *group) balancers() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last == nil {
		return nil
	}
	return slices.Clone(g.last.balancers)
}
