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

	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/pools"
)

const (
	activities  = 50               // number of the newest scaling activities to read
	historyRead = 30 * time.Minute // length of a fleet's history to read
	// refreshEvery is the interval of requests for a group's instance refreshes while none is
	// active. Each group needs its own request, and many groups would use up the budget.
	refreshEvery = 30 * time.Second
)

// refreshed is the latest state of a group's instance refreshes.
type refreshed struct {
	asked  time.Time
	active string // the active refresh, for people; empty: none
}

// maxRefreshes is how many groups one read requests the instance refreshes of: those whose last request is the oldest. A write requests
// those of its group.
const maxRefreshes = 50

// atOnce is the maximum number of concurrent requests of one kind.
const atOnce = 4

// troubles reads changes in progress and shortages of groups.
type troubles struct {
	aws *clients
	now func() time.Time

	mu        sync.Mutex
	refreshed map[string]refreshed // by group
}

// request reads changes in progress of all groups, and the shortage of groups below their target. It returns why some are unknown.
func (t *troubles) request(ctx context.Context, readings map[string]*reading) []pools.Note {
	var work errgroup.Group
	work.SetLimit(atOnce)
	var mu sync.Mutex // guards unknown
	var unknown listing
	due := t.due(readings)
	for _, r := range readings {
		work.Go(func() error {
			refreshes, shortage := t.refreshes(ctx, r, due[r.ID]), t.shortage(ctx, r)
			mu.Lock()
			defer mu.Unlock()
			unknown.addNote("instance refreshes of group "+r.ID, refreshes)
			unknown.addNote("shortages of group "+r.ID, shortage)
			return nil
		})
	}
	_ = work.Wait() // unknown has all errors
	slices.SortFunc(unknown.notes, func(a, b pools.Note) int { return strings.Compare(a.Part, b.Part) })
	return unknown.notes
}

// forget drops the state of groups that the latest read did not find.
func (t *troubles) forget(readings map[string]*reading, unread map[string]error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.refreshed, func(id string, _ refreshed) bool { return readings[id] == nil && unread[id] == nil })
}

// due returns the groups whose instance refreshes are requested now.
func (t *troubles) due(readings map[string]*reading) map[string]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	var ids []string
	for id, r := range readings {
		last, known := t.refreshed[id]
		if r.Kind == string(AutoScaling) && (!known || last.active != "" || t.now().Sub(last.asked) >= refreshEvery) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		return cmp.Or(t.refreshed[a].asked.Compare(t.refreshed[b].asked), strings.Compare(a, b))
	})
	out := map[string]bool{}
	for _, id := range ids[:min(len(ids), maxRefreshes)] {
		out[id] = true
	}
	return out
}

// refreshes marks a group as busy while an instance refresh changes it. While this is not due, or unknown, the last known refresh counts.
func (t *troubles) refreshes(ctx context.Context, r *reading, due bool) (err error) {
	t.mu.Lock()
	last := t.refreshed[r.ID]
	t.mu.Unlock()
	if due {
		if err = t.refreshing(ctx, r); err == nil {
			return nil
		}
	}
	r.Busy = cmp.Or(r.Busy, last.active)
	return err
}

// refreshing reads whether an instance refresh changes the group.
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
			default: // unknown states count as active too
				now.active = fmt.Sprintf("instance refresh %s is %s", aws.ToString(refresh.InstanceRefreshId), refresh.Status)
			}
		}
		return nil
	})
}

// shortage sets the reason why a group is below its target, if AWS reports one.
func (t *troubles) shortage(ctx context.Context, r *reading) error {
	switch {
	case r.Stale || r.living() >= float64(r.Target):
		return nil
	case r.launchBlocked != "":
		r.Short, r.ShortAt = r.launchBlocked, t.now()
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

// lastFailure returns the reason and the time of failure of the newest finished launch, or nothing
// if that launch succeeded. It ignores other activities and those in progress.
func lastFailure(all []astypes.Activity) (string, time.Time) {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b astypes.Activity) int {
		return aws.ToTime(b.StartTime).Compare(aws.ToTime(a.StartTime))
	})
	for _, a := range all {
		// This text is the only difference between launches and other activities.
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
			return prose.Clip(cmp.Or(aws.ToString(a.StatusMessage), "a launch failed"), maxCause), at
		}
	}
	return "", time.Time{}
}

// fleetShortage reads the errors in a fleet's last half hour.
func (t *troubles) fleetShortage(ctx context.Context, r *reading) error {
	since := t.now().Add(-historyRead)
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
	return prose.Clip(text, maxCause)
}
