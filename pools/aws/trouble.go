package aws

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sync/errgroup"
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

// atOnce is how many requests of one kind are in flight at the same time.
const atOnce = 4

// troubles reads what is under way at groups, and what they lack.
type troubles struct {
	aws *clients
	now func() time.Time

	mu        sync.Mutex
	refreshed map[string]refreshed // by group
}

// ask asks what is under way at the groups, and what keeps those that have
// less than they ask for.
func (t *troubles) ask(ctx context.Context, readings map[string]*reading) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(atOnce)
	for _, r := range readings {
		work.Go(func() error {
			if err := t.refreshes(ctx, r); err != nil {
				return err
			}
			return t.shortage(ctx, r)
		})
	}
	return work.Wait()
}

// forget drops what is known of groups that a round did not find.
func (t *troubles) forget(readings map[string]*reading) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.refreshed, func(id string, _ refreshed) bool { return readings[id] == nil })
}

// refreshes says that a group is busy while an instance refresh changes it.
func (t *troubles) refreshes(ctx context.Context, r *reading) error {
	if r.Kind != string(AutoScaling) {
		return nil
	}
	t.mu.Lock()
	last, known := t.refreshed[r.ID]
	t.mu.Unlock()
	if known && last.active == "" && t.now().Sub(last.asked) < refreshEvery {
		return nil
	}
	return t.refreshing(ctx, r)
}

// refreshing asks whether an instance refresh changes the group.
func (t *troubles) refreshing(ctx context.Context, r *reading) error {
	now := refreshed{asked: t.now()}
	if err := t.newestRefresh(ctx, r, &now); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !now.asked.Before(t.refreshed[r.ID].asked) {
		t.refreshed[r.ID] = now
	}
	if now.active != "" {
		r.Busy = now.active
	}
	return nil
}

func (t *troubles) newestRefresh(ctx context.Context, r *reading, now *refreshed) error {
	return t.aws.read(ctx, "autoscaling:DescribeInstanceRefreshes", "group "+r.ID, func() error {
		out, err := t.aws.autoscaling.DescribeInstanceRefreshes(ctx, &autoscaling.DescribeInstanceRefreshesInput{
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
func (t *troubles) shortage(ctx context.Context, r *reading) error {
	switch {
	case r.Stale || r.living() >= float64(r.Target):
		return nil
	case r.unlaunching != "":
		r.Short, r.ShortAt = r.unlaunching, t.now()
		return nil
	case r.Kind == string(AutoScaling):
		return t.groupShortage(ctx, r)
	}
	return t.fleetShortage(ctx, r)
}

func (t *troubles) groupShortage(ctx context.Context, r *reading) error {
	return t.aws.read(ctx, "autoscaling:DescribeScalingActivities", "group "+r.ID, func() error {
		out, err := t.aws.autoscaling.DescribeScalingActivities(ctx, &autoscaling.DescribeScalingActivitiesInput{
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
func (t *troubles) fleetShortage(ctx context.Context, r *reading) error {
	since := t.now().Add(-remembered)
	return t.aws.pages(ctx, "ec2:DescribeSpotFleetRequestHistory", r.ID, func(token *string) (*string, error) {
		out, err := t.aws.ec2.DescribeSpotFleetRequestHistory(ctx, &ec2.DescribeSpotFleetRequestHistoryInput{
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
