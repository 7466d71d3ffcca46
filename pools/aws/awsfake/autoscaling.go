package awsfake

import (
	"fmt"
	"slices"
	"time"
)

func scalingOperations() map[string]operation {
	return map[string]operation{
		"DescribeAutoScalingGroups": {do: describeGroups, params: []string{
			"AutoScalingGroupNames.", "Filters.", "IncludeInstances", "MaxRecords", "NextToken",
		}},
		"DescribeScalingActivities": {do: describeActivities, params: []string{
			"AutoScalingGroupName", "ActivityIds.", "Filters.", "IncludeDeletedGroups", "MaxRecords", "NextToken",
		}},
		"DescribeInstanceRefreshes": {do: describeRefreshes, params: []string{
			"AutoScalingGroupName", "InstanceRefreshIds.", "MaxRecords", "NextToken",
		}},
		"SetDesiredCapacity": {do: setDesiredCapacity, write: true, on: "AutoScalingGroupName", params: []string{
			"AutoScalingGroupName", "DesiredCapacity", "HonorCooldown",
		}},
		"TerminateInstanceInAutoScalingGroup": {do: terminateInGroup, write: true, on: "InstanceId", params: []string{
			"InstanceId", "ShouldDecrementDesiredCapacity",
		}},
		"DescribeAutoScalingInstances": {do: describeMembers, params: []string{"InstanceIds.", "MaxRecords", "NextToken"}},
		"SetInstanceHealth": {do: setInstanceHealth, write: true, on: "InstanceId", params: []string{
			"InstanceId", "HealthStatus", "ShouldRespectGracePeriod",
		}},
		"SuspendProcesses": {do: suspendProcesses, write: true, on: "AutoScalingGroupName", params: []string{
			"AutoScalingGroupName", "ScalingProcesses.",
		}},
		"CreateOrUpdateTags": {do: tagGroups, write: true, on: "Tags.member.1.ResourceId", params: []string{"Tags.member."}},
		"ResumeProcesses": {do: resumeProcesses, write: true, on: "AutoScalingGroupName", params: []string{
			"AutoScalingGroupName", "ScalingProcesses.",
		}},
	}
}

func describeGroups(r *request) (any, error) {
	names, filters := r.params.list("AutoScalingGroupNames.member"), r.params.filters("Filters.member", "Values.member")
	var found []*group
	for _, g := range r.view.groups {
		if len(names) > 0 && !slices.Contains(names, g.Name) {
			continue
		}
		ok, err := g.passes(filters)
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, g)
		}
	}
	part, next, err := scalingPage(r, found, 50)
	if err != nil {
		return nil, err
	}
	out := groupsAnswer{NextToken: next}
	for _, g := range part {
		out.Groups = append(out.Groups, r.groupAnswer(g, r.params["IncludeInstances"] != "false"))
	}
	return out, nil
}

func (g *group) passes(filters []filter) (bool, error) {
	for _, f := range filters {
		ok, known := f.tagged(g.Tags)
		if !known {
			return false, refuse("ValidationError", "Filter type %s is not correct. Allowed Filter types are: tag-key, tag-value, tag:<key>", f.name)
		}
		if !ok {
			return false, nil
		}
	}
	return true, nil
}

// scalingPage returns a page as Auto Scaling does: usual is the default size, 100 the maximum.
func scalingPage[T any](r *request, all []T, usual int) ([]T, string, error) {
	size, err := r.params.whole("MaxRecords", usual, 1, 100)
	if err != nil {
		return nil, "", refuse("ValidationError", "MaxRecords must be between 1 and 100")
	}
	return page(all, r.pageSize(size), r.params["NextToken"])
}

func describeActivities(r *request) (any, error) {
	groups := r.view.groups
	if r.params["AutoScalingGroupName"] != "" {
		g, err := r.named(r.view)
		if err != nil {
			return nil, err
		}
		groups = []*group{g}
	}
	passes, err := activityFilter(r.params)
	if err != nil {
		return nil, err
	}
	var found []activityAnswer
	for _, g := range groups {
		for _, a := range slices.Backward(g.activities) {
			if passes(a) {
				found = append(found, r.scaling.activityAnswer(g, a))
			}
		}
	}
	slices.SortStableFunc(found, func(a, b activityAnswer) int { return b.started.Compare(a.started) })
	part, next, err := scalingPage(r, found, 100)
	if err != nil {
		return nil, err
	}
	return activitiesAnswer{Activities: part, NextToken: next}, nil
}

// activityFilter returns a function that reports whether an activity passes the ids and filters of
// a request.
func activityFilter(p params) (func(activity) bool, error) {
	ids, filters := p.list("ActivityIds.member"), p.filters("Filters.member", "Values.member")
	var after, before time.Time
	for _, f := range filters {
		at, err := time.Time{}, error(nil)
		if f.name != "Status" && len(f.values) == 1 {
			at, err = time.Parse(time.RFC3339, f.values[0])
		}
		switch f.name {
		case "StartTimeLowerBound":
			after = at
		case "StartTimeUpperBound":
			before = at
		case "Status":
		default:
			return nil, refuse("ValidationError", "Filter %s is not valid", f.name)
		}
		if err != nil || len(f.values) == 0 {
			return nil, refuse("ValidationError", "Filter %s has a value that is not valid", f.name)
		}
	}
	return func(a activity) bool {
		for _, f := range filters {
			if f.name == "Status" && !f.has(a.status) {
				return false
			}
		}
		return (len(ids) == 0 || slices.Contains(ids, a.id)) && !a.start.Before(after) && (before.IsZero() || !a.start.After(before))
	}, nil
}

func describeRefreshes(r *request) (any, error) {
	g, err := r.named(r.view)
	if err != nil {
		return nil, err
	}
	ids := r.params.list("InstanceRefreshIds.member")
	var found []refreshAnswer
	for _, f := range slices.Backward(g.refreshes) {
		if len(ids) == 0 || slices.Contains(ids, f.id) {
			found = append(found, refreshAnswer{
				ID: f.id, Group: g.Name, Status: f.status, Start: timestamp(f.start), End: timestamp(f.end),
				Percentage: f.percentage(), Left: f.left,
			})
		}
	}
	part, next, err := scalingPage(r, found, 50)
	if err != nil {
		return nil, err
	}
	return refreshesAnswer{Refreshes: part, NextToken: next}, nil
}

func setDesiredCapacity(r *request) (any, error) {
	g, err := r.named(&r.world)
	if err != nil {
		return nil, err
	}
	desired, err := r.params.whole("DesiredCapacity", -1, 0, 1<<31-1)
	switch {
	case err != nil || desired < 0:
		return nil, refuse("ValidationError", "DesiredCapacity must be a number of at least 0")
	case desired > g.Max:
		return nil, refuse("ValidationError", "New SetDesiredCapacity value %d is above max value %d for the AutoScalingGroup.", desired, g.Max)
	case desired < g.Min:
		return nil, refuse("ValidationError", "New SetDesiredCapacity value %d is below min value %d for the AutoScalingGroup.", desired, g.Min)
	case r.params.truth("HonorCooldown") && r.now.Before(g.cooldown):
		return nil, refuse("ScalingActivityInProgress", "Scaling activity is in progress: the group %s is in its cooldown period", g.Name)
	}
	r.scaling.desire(g, desired, "explicitly set group desired capacity")
	return nil, nil
}

func terminateInGroup(r *request) (any, error) {
	id, decrement := r.params["InstanceId"], r.params.truth("ShouldDecrementDesiredCapacity")
	i := r.instance(id)
	if i == nil || !i.listed() {
		return nil, refuse("ValidationError", "Instance Id not found - No managed instance found for instance ID: %s", id)
	}
	g := r.group(i.owner)
	if i.lifecycle == lifeTerminating {
		// Amazon lowers the desired capacity a second time before it rejects the request
		// (kubernetes/autoscaler issue 4095).
		if decrement && g.Desired-int(i.weight) >= g.Min {
			g.Desired -= int(i.weight)
			r.after(settleAfter, func() { r.scaling.settleGroup(g) })
		}
		return nil, refuse("ScalingActivityInProgress", "Instance %s is already in lifecycle state Terminating", id)
	}
	from := g.Desired
	if decrement {
		if g.Desired-int(i.weight) < g.Min {
			return nil, refuse("ValidationError", "Currently, desiredSize equals minSize (%d). Terminating instance without replacement will violate group's min size constraint. "+
				"Either set shouldDecrementDesiredCapacity flag to false or lower group's min size.", g.Min)
		}
		g.Desired -= int(i.weight)
	}
	cause := fmt.Sprintf("At %s instance %s was taken out of service in response to a user request.", iso(r.now), id)
	if decrement {
		cause = fmt.Sprintf("At %s instance %s was taken out of service in response to a user request, shrinking the capacity from %d to %d.", iso(r.now), id, from, g.Desired)
	}
	a := r.scaling.takeOut(g, i, ByGroup, cause)
	r.after(settleAfter, func() { r.scaling.settleGroup(g) })
	return terminateAnswer{Activity: r.scaling.activityAnswer(g, a)}, nil
}
