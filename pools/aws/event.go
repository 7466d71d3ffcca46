package aws

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
	"github.com/weirkeeper/weirkeeper/pools"
)

// Names of the EventBridge events that are processed.
const (
	interruptionEvent = "EC2 Spot Instance Interruption Warning"
	rebalanceEvent    = "EC2 Instance Rebalance Recommendation"
	stateEvent        = "EC2 Instance State-change Notification"
	healthEvent       = "AWS Health Event"
	launchEvents      = "EC2 Instance Launch"    // Successful, Unsuccessful
	terminateEvents   = "EC2 Instance Terminate" // Successful, Unsuccessful
	launchAction      = "EC2 Instance-launch Lifecycle Action"
	terminateAction   = "EC2 Instance-terminate Lifecycle Action"
)

// event is a message of EventBridge about instances.
type event struct {
	id        string // may be empty
	kind      pools.NoticeKind
	instances []string // at least one; a warning has one
	at        time.Time
	why       string
}

// wireEvent is EventBridge's JSON, with the details of all processed events.
type wireEvent struct {
	ID     string `json:"id"`
	Type   string `json:"detail-type"`
	Time   string `json:"time"`
	Detail struct {
		Instance string `json:"instance-id"`
		Action   string `json:"instance-action"`
		State    string `json:"state"`
		Member   string `json:"EC2InstanceId"`
		Incident string `json:"eventTypeCode"`
		Entities []struct {
			Value string `json:"entityValue"`
		} `json:"affectedEntities"`
	} `json:"detail"`
}

// parseEvent decodes EventBridge's JSON, by the rules of strictjson.Lenient. Only the type and the instances must be readable. It
// returns errNoInstance for an event without instances that is no warning.
func parseEvent(body string) (event, error) {
	if len(body) > maxBody {
		return event{}, fmt.Errorf("larger than %d bytes", maxBody)
	}
	var w wireEvent
	if _, err := strictjson.Lenient([]byte(body), &w); err != nil {
		return event{}, fmt.Errorf("not an event: %w", err)
	}
	at, err := time.Parse(time.RFC3339, w.Time)
	if err != nil {
		at = time.Time{}
	}
	e := event{id: prose.Clip(w.ID, maxCause), at: at, why: prose.Clip(w.Type, maxCause), instances: []string{w.Detail.Instance}}
	d, more := w.Detail, ""
	switch {
	case w.Type == interruptionEvent:
		e.kind, more = pools.Interruption, d.Action
	case w.Type == rebalanceEvent:
		e.kind = pools.Rebalance
	case w.Type == stateEvent:
		e.kind, more = pools.Hint, d.State
	case w.Type == healthEvent:
		e.kind, more, e.instances = pools.Hint, d.Incident, nil
		for _, entity := range d.Entities {
			if validID(entity.Value) { // an entity may be of any type
				e.instances = append(e.instances, entity.Value)
			}
		}
		slices.Sort(e.instances)
		e.instances = slices.Compact(e.instances)
	case strings.HasPrefix(w.Type, launchEvents), strings.HasPrefix(w.Type, terminateEvents), w.Type == launchAction, w.Type == terminateAction:
		e.kind, e.instances = pools.Hint, []string{d.Member}
	default:
		return event{}, fmt.Errorf("event %.60q is unknown", w.Type)
	}
	switch named := len(e.instances) > 0 && validID(e.instances[0]); {
	case !named && e.kind == pools.Hint:
		return event{}, fmt.Errorf("event %.60q: %w", w.Type, errNoInstance)
	case !named:
		return event{}, fmt.Errorf("warning %.60q: it names no instance", w.Type)
	}
	if more != "" {
		e.why += ": " + prose.Clip(more, maxCause)
	}
	return e, nil
}

// errNoInstance: an event that is no warning names no instance, or an invalid id.
var errNoInstance = errors.New("it names no instance")
