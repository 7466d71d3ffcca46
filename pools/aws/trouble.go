package aws

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

const (
	activities = 50               // newest scaling activities that are read
	remembered = 30 * time.Minute // how far a fleet's history is read back
	// refreshEvery is how often a group is asked for instance refreshes while none is
	// known: each group is a request of its own, and many would use up the budget.
	refreshEvery = 30 * time.Second
)

// refreshed is what Amazon last said of a group's instance refreshes.
type refreshed struct {
	asked  time.Time
	active string // says which one changes the group; empty: none
}

// refreshes says that a group is busy while an instance refresh changes it.
func (p *Provider) refreshes(ctx context.Context, r *reading) error {
	if r.Kind != string(AutoScaling) {
		return nil
	}
	p.mu.Lock()
	last, known := p.refreshed[r.ID]
	p.mu.Unlock()
	if known && last.active == "" && p.cfg.Now().Sub(last.asked) < refreshEvery {
		return nil
	}
	return p.refreshing(ctx, r)
}

// refreshing asks whether an instance refresh changes the group.
func (p *Provider) refreshing(ctx context.Context, r *reading) error {
	now := refreshed{asked: p.cfg.Now()}
	if err := p.newestRefresh(ctx, r, &now); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !now.asked.Before(p.refreshed[r.ID].asked) {
		p.refreshed[r.ID] = now
	}
	if now.active != "" {
		r.Busy = now.active
	}
	return nil
}

func (p *Provider) newestRefresh(ctx context.Context, r *reading, now *refreshed) error {
	return p.aws.read(ctx, "autoscaling:DescribeInstanceRefreshes", "group "+r.ID, func() error {
		out, err := p.aws.autoscaling.DescribeInstanceRefreshes(ctx, &autoscaling.DescribeInstanceRefreshesInput{
			AutoScalingGroupName: &r.ID, MaxRecords: aws.Int32(1), // the newest; there is one at a time
		})
		if err != nil {
			return err
		}
		for _, refresh := range out.InstanceRefreshes {
			switch refresh.Status {
			case astypes.InstanceRefreshStatusSuccessful, astypes.InstanceRefreshStatusFailed, astypes.InstanceRefreshStatusCancelled,
				astypes.InstanceRefreshStatusRollbackSuccessful, astypes.InstanceRefreshStatusRollbackFailed:
			default: // also one that is not known here
				now.active = fmt.Sprintf("instance refresh %s is %s", aws.ToString(refresh.InstanceRefreshId), refresh.Status)
			}
		}
		return nil
	})
}

// shortage says why a group has less than it asks for, if Amazon does.
func (p *Provider) shortage(ctx context.Context, r *reading) error {
	switch {
	case r.Stale || r.living() >= float64(r.Target):
		return nil
	case r.unlaunching != "":
		r.Short, r.ShortAt = r.unlaunching, p.cfg.Now()
		return nil
	case r.Kind == string(AutoScaling):
		return p.groupShortage(ctx, r)
	}
	return p.fleetShortage(ctx, r)
}

func (p *Provider) groupShortage(ctx context.Context, r *reading) error {
	return p.aws.read(ctx, "autoscaling:DescribeScalingActivities", "group "+r.ID, func() error {
		out, err := p.aws.autoscaling.DescribeScalingActivities(ctx, &autoscaling.DescribeScalingActivitiesInput{
			AutoScalingGroupName: &r.ID, MaxRecords: aws.Int32(activities),
		})
		if err != nil {
			return err
		}
		r.Short, r.ShortAt = lastFailure(out.Activities)
		return nil
	})
}

// lastFailure returns why and when the newest launch that is over failed; nothing
// if it succeeded. Activities of other kinds, and those under way, say nothing.
func lastFailure(all []astypes.Activity) (string, time.Time) {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b astypes.Activity) int {
		return aws.ToTime(b.StartTime).Compare(aws.ToTime(a.StartTime))
	})
	for _, a := range all {
		// Amazon tells launches from endings, moves to standby and the like by this
		// text alone.
		if !strings.HasPrefix(aws.ToString(a.Description), "Launching") {
			continue
		}
		switch a.StatusCode {
		case astypes.ScalingActivityStatusCodeSuccessful:
			return "", time.Time{}
		case astypes.ScalingActivityStatusCodeFailed:
			at := aws.ToTime(a.EndTime)
			if at.IsZero() {
				at = aws.ToTime(a.StartTime)
			}
			return clip(cmp.Or(aws.ToString(a.StatusMessage), "a launch failed")), at
		}
	}
	return "", time.Time{}
}

// fleetShortage reads the errors of a fleet's last half hour.
func (p *Provider) fleetShortage(ctx context.Context, r *reading) error {
	since := p.cfg.Now().Add(-remembered)
	return p.aws.pages(ctx, "ec2:DescribeSpotFleetRequestHistory", r.ID, func(token *string) (*string, error) {
		out, err := p.aws.ec2.DescribeSpotFleetRequestHistory(ctx, &ec2.DescribeSpotFleetRequestHistoryInput{
			SpotFleetRequestId: &r.ID, StartTime: &since, EventType: ec2types.EventTypeError,
			MaxResults: aws.Int32(instancesPage), NextToken: token,
		})
		if err != nil {
			return nil, err
		}
		for _, h := range out.HistoryRecords {
			if at := aws.ToTime(h.Timestamp); h.EventType == ec2types.EventTypeError && at.After(r.ShortAt) {
				r.Short, r.ShortAt = describeEvent(h.EventInformation), at
			}
		}
		return out.NextToken, nil
	})
}

func describeEvent(e *ec2types.EventInformation) string {
	if e == nil {
		return "the fleet reports an error"
	}
	text := cmp.Or(aws.ToString(e.EventSubType), "the fleet reports an error")
	if d := aws.ToString(e.EventDescription); d != "" {
		text += ": " + d
	}
	return clip(text)
}

// clip bounds a text of Amazon's.
func clip(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxCause)], "") }
