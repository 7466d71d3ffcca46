package awsfake

import (
	"slices"
	"strings"
)

type volumeTaskAnswer struct {
	Task taskAnswer `xml:"replaceRootVolumeTask"`
}

type volumeTasksAnswer struct {
	Tasks     []taskAnswer `xml:"replaceRootVolumeTaskSet>item"`
	NextToken string       `xml:"nextToken,omitempty"`
}

type taskAnswer struct {
	ID       string `xml:"replaceRootVolumeTaskId"`
	Instance string `xml:"instanceId"`
	State    string `xml:"taskState"`
	Started  string `xml:"startTime"`
	Ended    string `xml:"completeTime,omitempty"`
	Image    string `xml:"imageId,omitempty"`
	Discard  bool   `xml:"deleteReplacedRootVolume"`
	Tags     []tag  `xml:"tagSet>item"`
}

func (t *volumeTask) answer() taskAnswer {
	return taskAnswer{t.id, t.instance, t.state, timestamp(t.started), timestamp(t.ended), t.image, t.discard, tagList(t.tags)}
}

// createVolumeTask begins a task. A second task with the same token is the first one.
func createVolumeTask(r *request) (any, error) {
	id, token, image := r.params["InstanceId"], r.params["ClientToken"], r.params["ImageId"]
	if err := checkIDs(&r.world, []string{id}); err != nil {
		return nil, err
	}
	if t := first(r.tasks, func(t *volumeTask) bool { return token != "" && t.token == token }); t != nil {
		if t.instance != id || t.image != image {
			return nil, refuse("IdempotentParameterMismatch", "The client token '%s' was used with other parameters", token)
		}
		return volumeTaskAnswer{t.answer()}, nil
	}
	switch i := r.instance(id); {
	case i.state != running:
		return nil, refuse("IncorrectInstanceState", "The instance '%s' must be in the 'running' state", id)
	case r.compute.busy(id):
		return nil, refuse("IncorrectState", "A root volume replacement task is in progress for '%s'", id)
	case image != "" && !strings.HasPrefix(image, "ami-"):
		return nil, refuse("InvalidAMIID.Malformed", `Invalid id: "%s"`, image)
	}
	outcome := r.compute.outcome
	r.compute.outcome = ""
	return volumeTaskAnswer{r.compute.rebuild(volumeTask{
		instance: id, image: image, token: token, discard: r.params.truth("DeleteReplacedRootVolume"), tags: r.params.tags("TagSpecification.1.Tag"),
	}, outcome).answer()}, nil
}

func describeVolumeTasks(r *request) (any, error) {
	ids, filters := r.params.list("ReplaceRootVolumeTaskId"), r.params.filters("Filter", "Value")
	var found []taskAnswer
	for _, t := range r.view.tasks {
		ok := len(ids) == 0 || slices.Contains(ids, t.id)
		for _, f := range filters {
			if f.name != "instance-id" {
				return nil, refuse("InvalidParameterValue", "The filter '%s' is invalid", f.name)
			}
			ok = ok && f.has(t.instance)
		}
		if ok {
			found = append(found, t.answer())
		}
	}
	part, next, err := computePage(r, found, 1)
	return volumeTasksAnswer{part, next}, err
}
