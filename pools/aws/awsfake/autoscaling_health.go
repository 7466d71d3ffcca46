package awsfake

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

type membersAnswer struct {
	Members   []ownedMember `xml:"AutoScalingInstances>member"`
	NextToken string        `xml:",omitempty"`
}

type ownedMember struct {
	groupMember
	Group string `xml:"AutoScalingGroupName"`
}

// mostMembers is the maximum number of instance ids in one request.
const mostMembers = 50

// describeMembers returns the instances of groups. It ignores other ids.
func describeMembers(r *request) (any, error) {
	ids := r.params.list("InstanceIds.member")
	if len(ids) > mostMembers {
		return nil, refuse("ValidationError", "The number of instance ids that may be passed in is limited to %d", mostMembers)
	}
	var found []ownedMember
	for _, i := range r.view.instances {
		g := r.view.group(i.owner)
		if g == nil || !i.listed() || len(ids) > 0 && !slices.Contains(ids, i.id) {
			continue
		}
		m := g.memberAnswer(i)
		m.HealthStatus = strings.ToUpper(m.HealthStatus) // upper case only in this response
		found = append(found, ownedMember{m, g.Name})
	}
	size, err := r.params.whole("MaxRecords", mostMembers, 1, mostMembers)
	if err != nil {
		return nil, refuse("ValidationError", "MaxRecords must be between 1 and %d", mostMembers)
	}
	part, next, err := page(found, r.pageSize(size), r.params["NextToken"])
	return membersAnswer{part, next}, err
}

// setInstanceHealth sets the mark of an instance. It does not affect an instance that is already
// terminating.
func setInstanceHealth(r *request) (any, error) {
	id := r.params["InstanceId"]
	i := r.instance(id)
	if i == nil || !i.listed() {
		return nil, refuse("ValidationError", "Instance Id not found - No managed instance found for instance ID: %s", id)
	}
	switch r.params["HealthStatus"] {
	case "Healthy":
		i.unhealthy = false
	case "Unhealthy":
		i.unhealthy = true
	default:
		return nil, refuse("ValidationError", "Instance health status must be either Healthy or Unhealthy.")
	}
	g := r.group(i.owner)
	r.after(settleAfter, func() { r.scaling.replace(g, i) })
	return nil, nil
}

// processes returns the group and the processes of a request. Without names it returns all
// processes.
func (r *request) processes() (*group, []string, error) {
	g, err := r.named(&r.world)
	if err != nil {
		return nil, nil, err
	}
	all := []string{
		"Launch", "Terminate", "AddToLoadBalancer", "AlarmNotification", "AZRebalance", "HealthCheck",
		"InstanceRefresh", "ReplaceUnhealthy", "ScheduledActions",
	}
	some := r.params.list("ScalingProcesses.member")
	for _, process := range some {
		if !slices.Contains(all, process) {
			return nil, nil, refuse("ValidationError", "Invalid process name: %s", process)
		}
	}
	if len(some) == 0 {
		some = all
	}
	return g, some, nil
}

func suspendProcesses(r *request) (any, error) {
	g, some, err := r.processes()
	if err != nil {
		return nil, err
	}
	all := append(slices.Clone(g.suspended), some...)
	slices.Sort(all)
	r.scaling.suspend(g, slices.Compact(all))
	return nil, nil
}

func resumeProcesses(r *request) (any, error) {
	g, some, err := r.processes()
	if err != nil {
		return nil, err
	}
	r.scaling.suspend(g, slices.DeleteFunc(slices.Clone(g.suspended), func(process string) bool { return slices.Contains(some, process) }))
	return nil, nil
}

// scalingGroup is the resource type of a group in its tags.
const scalingGroup = "auto-scaling-group"

// tagGroups stores tags of groups that are not propagated to instances.
func tagGroups(r *request) (any, error) {
	for n := 1; ; n++ {
		tag := fmt.Sprintf("Tags.member.%d.", n)
		name, more := r.params[tag+"ResourceId"]
		if !more {
			return nil, nil
		}
		g := r.group(name)
		switch {
		case g == nil:
			return nil, refuse("ValidationError", "Group: %s does not exist - no such group", name)
		case r.params[tag+"ResourceType"] != scalingGroup:
			return nil, refuse("ValidationError", "Resource type %s is not supported", r.params[tag+"ResourceType"])
		case r.params.truth(tag + "PropagateAtLaunch"):
			return nil, refuse("ValidationError", "this server does not support tags with PropagateAtLaunch")
		}
		notes := maps.Clone(g.notes)
		if notes == nil {
			notes = map[string]string{}
		}
		notes[r.params[tag+"Key"]] = r.params[tag+"Value"]
		g.notes = notes
	}
}
