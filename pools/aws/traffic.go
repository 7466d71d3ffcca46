package aws

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/pools"
)

// namesPerRequest is the maximum number of target groups in one request.
const namesPerRequest = 20

// balancers reads the load balancers of the pool's instances.
type balancers struct {
	aws *clients

	mu      sync.Mutex
	named   map[string]string // ARNs of target groups, by name
	watched []string          // ARNs of the target groups of the latest request by name
}

// traffic reads the health of targets: of the target groups in names, or, without names, of those
// with the ARNs in own.
func (b *balancers) traffic(ctx context.Context, names, own []string, found map[string]*inspected) {
	arns, err := own, error(nil)
	if len(names) > 0 {
		arns, err = b.watch(ctx, names)
	}
	if err != nil {
		trafficUnknown(found, err)
		return
	}
	for _, arn := range arns {
		targets, err := b.aws.targets(ctx, arn)
		if err != nil {
			b.mu.Lock()
			clear(b.named) // the name may now belong to another group
			b.mu.Unlock()
			trafficUnknown(found, err)
			return
		}
		balance(arn, targets, found)
	}
}

// trafficUnknown sets the traffic health of all instances to unknown, because of err.
func trafficUnknown(found map[string]*inspected, err error) {
	for _, i := range found {
		i.Traffic = pools.HealthCheck{Why: prose.Clip(err.Error(), maxCause)}
	}
}

// watch returns the ARNs of target groups by name, and stores them.
func (b *balancers) watch(ctx context.Context, names []string) ([]string, error) {
	arns, err := b.resolve(ctx, names)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watched = arns
	return arns, nil
}

// resolve returns the ARNs of target groups. It requests each name once.
func (b *balancers) resolve(ctx context.Context, names []string) ([]string, error) {
	var arns, unknown []string
	b.mu.Lock()
	for _, name := range names {
		if arn := b.named[name]; strings.HasPrefix(name, "arn:") {
			arns = append(arns, name)
		} else if arn != "" {
			arns = append(arns, arn)
		} else {
			unknown = append(unknown, name)
		}
	}
	b.mu.Unlock()
	for some := range slices.Chunk(unknown, namesPerRequest) {
		err := b.aws.pages(ctx, "elasticloadbalancing:DescribeTargetGroups", strings.Join(some, ", "), func(token *string) (*string, error) {
			out, err := b.aws.elasticloadbalancing.DescribeTargetGroups(ctx, &elb.DescribeTargetGroupsInput{Names: some, Marker: token})
			if err != nil {
				return nil, err
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			for _, g := range out.TargetGroups {
				arns = append(arns, aws.ToString(g.TargetGroupArn))
				b.named[aws.ToString(g.TargetGroupName)] = aws.ToString(g.TargetGroupArn)
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

// targets reads all targets of a group. AWS has no pages for them.
func (c *clients) targets(ctx context.Context, arn string) (targets []elbtypes.TargetHealthDescription, err error) {
	err = c.read(ctx, "elasticloadbalancing:DescribeTargetHealth", "target group "+groupName(arn), func() error {
		out, err := c.elasticloadbalancing.DescribeTargetHealth(ctx, &elb.DescribeTargetHealthInput{TargetGroupArn: &arn})
		if err == nil {
			targets = out.TargetHealthDescriptions
		}
		return err
	})
	return targets, err
}

// groupName returns the name of a target group, from its ARN.
func groupName(arn string) string {
	if parts := strings.Split(arn, "/"); len(parts) == 3 {
		return parts[1]
	}
	return arn
}

// balance adds the health of the pool's instances in one target group. If several are unfit and
// none is fit, their health is unknown: then the load balancer is the more likely cause.
func balance(arn string, targets []elbtypes.TargetHealthDescription, found map[string]*inspected) {
	checks := make(map[string]pools.HealthCheck)
	fit, unfit := 0, 0
	for _, t := range targets {
		id := ""
		if t.Target != nil {
			id = aws.ToString(t.Target.Id)
		}
		if found[id] == nil {
			continue
		}
		s := targetCheck(groupName(arn), t.TargetHealth)
		checks[id] = worse(checks[id], s)
	}
	for _, s := range checks {
		switch s.Fitness {
		case pools.Fit:
			fit++
		case pools.Unfit:
			unfit++
		}
	}
	for id, s := range checks {
		if fit == 0 && unfit > 1 && s.Fitness == pools.Unfit {
			s = pools.HealthCheck{Why: fmt.Sprintf("elb %s: all of %d targets fail; it may be the load balancer", groupName(arn), unfit)}
		}
		found[id].Traffic = worse(found[id].Traffic, s)
	}
}

// worse returns the check that counts: an unfit one, else a fit one, else the first with a reason.
func worse(a, b pools.HealthCheck) pools.HealthCheck {
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

// targetCheck converts the health of one target. Only the checks of the target itself count.
func targetCheck(group string, h *elbtypes.TargetHealth) pools.HealthCheck {
	if h == nil {
		return pools.HealthCheck{}
	}
	why := prose.Clip(fmt.Sprintf("elb %s: %s", group, cmp.Or(string(h.Reason), string(h.State))), maxCause)
	switch h.State {
	case elbtypes.TargetHealthStateEnumHealthy:
		return pools.HealthCheck{Fitness: pools.Fit}
	case elbtypes.TargetHealthStateEnumUnhealthy, elbtypes.TargetHealthStateEnumUnhealthyDraining:
		switch h.Reason {
		case elbtypes.TargetHealthReasonEnumResponseCodeMismatch, elbtypes.TargetHealthReasonEnumTimeout,
			elbtypes.TargetHealthReasonEnumFailedHealthChecks:
			return pools.HealthCheck{Fitness: pools.Unfit, Why: why}
		}
	}
	return pools.HealthCheck{Why: why}
}

// balancers returns the ARNs of the target groups of the group's instances.
func (g *group) balancers() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last == nil {
		return nil
	}
	return slices.Clone(g.last.balancers)
}
