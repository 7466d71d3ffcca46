package aws

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/provider"
)

// dryRunCode is the error code of a permitted dry run.
const dryRunCode = "DryRunOperation"

// Rights tests the rights of the account that the pool needs, and changes nothing. The reads are those of a tick. EC2
// answers dry runs; Auto Scaling, Spot Fleet and SQS have none, so their writes are untested. repairs adds the rights of
// repairs in place, which only a node-health policy uses.
func (p *Provider) Rights(ctx context.Context, repairs bool) ([]provider.Right, error) {
	found, err := p.Groups(ctx)
	if err != nil {
		return nil, err
	}
	all := []provider.Right{{Action: "reads of a tick", Result: provider.Granted}}
	if err := unreadable(ctx, found); err != nil {
		all[0].Result, all[0].Why = provider.Untested, err.Error()
		if errors.Is(err, pools.ErrRefused) {
			all[0].Result = provider.Denied
		}
	}
	honoured := p.dryRun(ctx, dryRunOf{action: "ec2:DescribeInstances", call: func(ctx context.Context, _ string) error { return describeDry(ctx, p.aws) }}, "").Result == provider.Granted
	for _, kind := range []Kind{AutoScaling, SpotFleet} {
		names := p.names(kind)
		if len(names) == 0 {
			continue
		}
		instance := firstInstance(ctx, found.Groups, names)
		for _, t := range p.dryRuns(kind, repairs) {
			switch untested := (provider.Right{Action: t.action, Repair: t.repair}); {
			case instance == "":
				untested.Why = "no " + kind.noun() + " of the pool has an instance to test it on"
				all = append(all, untested)
			case !honoured:
				untested.Why = "the server does not answer the dry run of a read"
				all = append(all, untested)
			default:
				all = append(all, p.dryRun(ctx, t, instance))
			}
		}
		for _, action := range untested(kind) {
			all = append(all, provider.Right{Action: action, Why: "there is no dry run of it", Result: provider.Untested})
		}
	}
	if p.cfg.Queue != "" {
		all = append(all, provider.Right{Action: "sqs:ReceiveMessage", Why: "there is no dry run of it", Result: provider.Untested})
	}
	return all, nil
}

// untested returns the writes that cannot be tested without an effect.
func untested(kind Kind) []string {
	if kind == SpotFleet {
		return []string{"ec2:ModifySpotFleetRequest"}
	}
	return []string{"autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"}
}

// unreadable returns why something of the groups could not be read.
func unreadable(ctx context.Context, l pools.Listing) error {
	var errs []error
	for _, n := range l.Notes {
		errs = append(errs, n)
	}
	errs = append(errs, l.Missing.Err())
	for _, g := range l.Groups {
		_, err := g.Snapshot(ctx)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// firstInstance returns an instance of the groups with these names; empty: no instance is known.
func firstInstance(ctx context.Context, groups []pools.Group, names []string) string {
	for _, g := range groups {
		if !slices.Contains(names, g.ID()) {
			continue
		}
		s, err := g.Snapshot(ctx)
		if err != nil {
			continue
		}
		for _, i := range s.Instances {
			if i.State != api.InstanceTerminating {
				return i.ID
			}
		}
	}
	return ""
}

// dryRunOf is one dry run on an instance.
type dryRunOf struct {
	action string
	repair bool // only repairs need it
	call   func(ctx context.Context, instance string) error
}

func (p *Provider) dryRuns(kind Kind, repairs bool) (all []dryRunOf) {
	c, dry := p.aws.ec2, aws.Bool(true)
	if kind == SpotFleet {
		all = append(all, dryRunOf{"ec2:TerminateInstances", false, func(ctx context.Context, id string) error { return terminateDry(ctx, p.aws, id) }})
	}
	if !repairs {
		return all
	}
	all = append(all, dryRunOf{"ec2:CreateTags", true, func(ctx context.Context, id string) error {
		_, err := c.CreateTags(ctx, &ec2.CreateTagsInput{
			Resources: []string{id}, DryRun: dry, Tags: []ec2types.Tag{{Key: aws.String(repairTag), Value: aws.String("")}},
		})
		return err
	}}, dryRunOf{"ec2:RebootInstances", true, func(ctx context.Context, id string) error {
		_, err := c.RebootInstances(ctx, &ec2.RebootInstancesInput{InstanceIds: []string{id}, DryRun: dry})
		return err
	}})
	if kind == SpotFleet {
		return all
	}
	return append(all, dryRunOf{"ec2:StopInstances", true, func(ctx context.Context, id string) error {
		_, err := c.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{id}, DryRun: dry})
		return err
	}}, dryRunOf{"ec2:StartInstances", true, func(ctx context.Context, id string) error {
		_, err := c.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: []string{id}, DryRun: dry})
		return err
	}})
}

// describeDry is a dry run of a read. A server that carries it out would carry out the others too.
func describeDry(ctx context.Context, c *clients) error {
	_, err := c.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{DryRun: aws.Bool(true)})
	return err
}

// terminateDry is a dry run of a termination.
func terminateDry(ctx context.Context, c *clients, id string) error {
	_, err := c.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{id}, DryRun: aws.Bool(true)})
	return err
}

// dryRun returns the result of one dry run. A dry run that succeeds has the error DryRunOperation.
func (p *Provider) dryRun(ctx context.Context, t dryRunOf, instance string) provider.Right {
	r := provider.Right{Action: t.action, Repair: t.repair}
	err := p.aws.read(ctx, t.action, cmp.Or(instance, "the account"), func() error { return t.call(ctx, instance) })
	switch {
	case permitted(err):
		r.Result = provider.Granted
	case errors.Is(err, pools.ErrRefused):
		r.Result, r.Why = provider.Denied, err.Error()
	case err == nil:
		r.Why = "the server ignored the dry run"
	default:
		r.Why = err.Error()
	}
	return r
}
