package awsfake

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

func healthOperations() map[string]operation {
	several := []string{"DryRun", "InstanceId."}
	return map[string]operation{
		"DescribeInstanceStatus": {do: describeStatus, params: append(several, "IncludeAllInstances", "MaxResults", "NextToken")},
		"GetConsoleOutput":       {do: getConsole, params: []string{"DryRun", "InstanceId", "Latest"}},
		"RebootInstances":        {do: rebootInstances, write: true, on: "InstanceId", params: several},
		"StartInstances":         {do: startInstances, write: true, on: "InstanceId", params: several},
		"StopInstances":          {do: stopInstances, write: true, on: "InstanceId", params: append(several, "Force")},
		"CreateTags":             {do: createTags, write: true, on: "ResourceId", params: []string{"DryRun", "ResourceId.", "Tag."}},
		"ModifyNetworkInterfaceAttribute": {do: modifyInterface, write: true, on: "NetworkInterfaceId",
			params: []string{"DryRun", "NetworkInterfaceId", "SecurityGroupId."}},
		"CreateReplaceRootVolumeTask": {do: createVolumeTask, write: true, on: "InstanceId",
			params: []string{"DryRun", "InstanceId", "ClientToken", "ImageId", "DeleteReplacedRootVolume", "TagSpecification."}},
		"DescribeReplaceRootVolumeTasks": {do: describeVolumeTasks,
			params: []string{"DryRun", "Filter.", "MaxResults", "NextToken", "ReplaceRootVolumeTaskId."}},
	}
}

type statusesAnswer struct {
	Statuses  []statusAnswer `xml:"instanceStatusSet>item"`
	NextToken string         `xml:"nextToken,omitempty"`
}

type statusAnswer struct {
	ID      string         `xml:"instanceId"`
	Zone    string         `xml:"availabilityZone"`
	State   instanceState  `xml:"instanceState"`
	Machine summary        `xml:"instanceStatus"`
	Host    summary        `xml:"systemStatus"`
	Events  []plannedEvent `xml:"eventsSet>item"`
}

type summary struct {
	Status  string   `xml:"status"`
	Details []detail `xml:"details>item"`
}

type detail struct {
	Name   string `xml:"name"`
	Status string `xml:"status"`
	Since  string `xml:"impairedSince,omitempty"`
}

type plannedEvent struct {
	ID     string `xml:"instanceEventId"`
	Code   string `xml:"code"`
	About  string `xml:"description"`
	Before string `xml:"notBefore"`
}

// most is the maximum number of instance ids in one request.
const most = 100

type consoleAnswer struct {
	ID     string `xml:"instanceId"`
	At     string `xml:"timestamp"`
	Output string `xml:"output,omitempty"`
}

func getConsole(r *request) (any, error) {
	id := r.params["InstanceId"]
	if err := checkIDs(r.view, []string{id}); err != nil {
		return nil, err
	}
	for _, i := range r.view.instances {
		if i.id != id {
			continue
		}
		if i.xen && r.params.truth("Latest") {
			return nil, refuse("UnsupportedOperation", "This instance type does not support retrieving the latest console logs")
		}
		return consoleAnswer{id, timestamp(r.now), base64.StdEncoding.EncodeToString([]byte(i.console))}, nil
	}
	return nil, nil
}

func describeStatus(r *request) (any, error) {
	ids := r.params.list("InstanceId")
	if _, limited := r.params["MaxResults"]; limited && len(ids) > 0 {
		return nil, refuse("InvalidParameterCombination", "The parameter instancesSet cannot be used with the parameter maxResults")
	}
	if len(ids) > most {
		return nil, refuse("InvalidParameterValue", "The maximum number of instance ids is %d", most)
	}
	if err := checkIDs(r.view, ids); err != nil {
		return nil, err
	}
	var found []statusAnswer
	for _, i := range r.view.instances {
		if (i.state == running || r.params.truth("IncludeAllInstances")) && (len(ids) == 0 || slices.Contains(ids, i.id)) {
			found = append(found, r.statusAnswer(i))
		}
	}
	part, next, err := computePage(r, found, 5)
	return statusesAnswer{part, next}, err
}

func (r *request) statusAnswer(i *instance) statusAnswer {
	a := statusAnswer{ID: i.id, Zone: i.market.Zone, State: stateOf(i.state), Machine: r.summary(i, i.machine), Host: r.summary(i, i.host)}
	if i.event != "" {
		a.Events = []plannedEvent{{"instance-event-" + i.id[2:], i.event, "The instance is running on degraded hardware", timestamp(r.now.Add(fade))}}
	}
	return a
}

func (r *request) summary(i *instance, set string) summary {
	s := summary{Status: i.status(set, r.now)}
	reached := map[string]string{statusOK: "passed", "impaired": "failed", statusNotApplicable: ""}[s.Status]
	switch {
	case reached == "" && s.Status != statusNotApplicable:
		reached = s.Status
	case reached == "":
		return s
	}
	s.Details = []detail{{Name: "reachability", Status: reached}}
	return s
}

// some returns the instances of a request.
func (r *request) some() ([]*instance, error) {
	ids := r.params.list("InstanceId")
	if len(ids) == 0 {
		return nil, refuse("MissingParameter", "The request must contain the parameter InstanceId")
	}
	if err := checkIDs(&r.world, ids); err != nil {
		return nil, err
	}
	var out []*instance
	for _, id := range ids {
		out = append(out, r.instance(id))
	}
	return out, nil
}

// incorrect returns the error for an invalid state of an instance.
func (i *instance) incorrect(what string) error {
	return refuse("IncorrectInstanceState", "The instance '%s' is not in a state from which it can be %s.", i.id, what)
}

func rebootInstances(r *request) (any, error) {
	all, err := r.some()
	if err != nil {
		return nil, err
	}
	for _, i := range all {
		if i.state != running {
			return nil, i.incorrect("rebooted")
		}
	}
	for _, i := range all {
		i.reboots++
		r.compute.restart(i)
	}
	return nil, nil
}

// changeEach calls do for the instances in the state from. It returns the states of all before and
// after.
func (r *request) changeEach(all []*instance, from string, do func(*instance)) terminatingAnswer {
	var out terminatingAnswer
	for _, i := range all {
		before := i.state
		if before == from {
			do(i)
		}
		out.Instances = append(out.Instances, terminating{i.id, stateOf(i.state), stateOf(before)})
	}
	return out
}

func stopInstances(r *request) (any, error) {
	all, err := r.some()
	if err != nil {
		return nil, err
	}
	for _, i := range all {
		switch {
		case i.spot:
			return nil, refuse("UnsupportedOperation", "You can't stop the Spot Instance '%s' because it is associated with a one-time Spot Instance request. "+
				"You can only stop Spot Instances associated with persistent Spot Instance requests.", i.id)
		case !i.exists() || i.state == pending:
			return nil, i.incorrect("stopped")
		}
	}
	return r.changeEach(all, running, r.compute.stop), nil
}

func startInstances(r *request) (any, error) {
	all, err := r.some()
	if err != nil {
		return nil, err
	}
	for _, i := range all {
		if !i.exists() || i.state == stopping {
			return nil, i.incorrect("started")
		}
		if i.state == stopped && r.compute.available(i.market, i.spot) != enough {
			return nil, &fault{http.StatusInternalServerError, "InsufficientInstanceCapacity", "Insufficient capacity."}
		}
	}
	return r.changeEach(all, stopped, r.compute.start), nil
}

// createTags tags instances. Other resources are not supported.
func createTags(r *request) (any, error) {
	ids := r.params.list("ResourceId")
	if err := checkIDs(&r.world, ids); err != nil {
		return nil, err
	}
	tags := r.params.tags("Tag")
	if len(ids) == 0 || len(tags) == 0 {
		return nil, refuse("MissingParameter", "The request must contain the parameter ResourceId and Tag")
	}
	for _, id := range ids {
		for key, value := range tags {
			r.instance(id).tag(key, value)
		}
	}
	return nil, nil
}

// tags returns the tags with that prefix.
func (p params) tags(prefix string) map[string]string {
	tags := make(map[string]string)
	for n := 1; ; n++ {
		key, ok := p[fmt.Sprintf("%s.%d.Key", prefix, n)]
		if !ok {
			return tags
		}
		tags[key] = p[fmt.Sprintf("%s.%d.Value", prefix, n)]
	}
}

// nic returns the id of an instance's only network interface.
func (i *instance) nic() string { return "eni-" + strings.TrimPrefix(i.id, "i-") }

func modifyInterface(r *request) (any, error) {
	id, groups := r.params["NetworkInterfaceId"], r.params.list("SecurityGroupId")
	i := first(r.instances, func(i *instance) bool { return i.exists() && i.nic() == id })
	if i == nil {
		return nil, refuse("InvalidNetworkInterfaceID.NotFound", "The networkInterface ID '%s' does not exist", id)
	}
	for _, group := range groups {
		if !strings.HasPrefix(group, "sg-") {
			return nil, refuse("InvalidGroup.NotFound", "The security group '%s' does not exist", group)
		}
	}
	if len(groups) == 0 {
		return nil, refuse("InvalidParameterCombination", "No attributes specified.")
	}
	i.securityGroups = groups
	return nil, nil
}
