package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
	"github.com/weirkeeper/weirkeeper/pools"
)

// Types of conditions for unreadable parts.
const (
	invalidConditions = "InvalidConditions" // conditions without a readable type, or beyond their bound
	unreadableFacts   = "UnreadableFacts"   // the facts of a node
)

// condition is an api.NodeCondition on the wire.
type condition api.NodeCondition

// UnmarshalJSON implements json.Unmarshaler. It returns no error; see DecodeCondition.
func (c *condition) UnmarshalJSON(data []byte) error {
	*c = condition(DecodeCondition(data))
	return nil
}

// DecodeCondition decodes a condition that another program wrote, by the rules of strictjson.Lenient. If a part is not
// readable, or the result is missing, the condition is Unknown. Without a readable type, it has none.
func DecodeCondition(data []byte) api.NodeCondition {
	var w struct {
		Type    string          `json:"type"`
		Failed  bool            `json:"failed"`
		Unknown bool            `json:"unknown"`
		Why     json.RawMessage `json:"why"`
	}
	field, err := strictjson.Lenient(data, &w, "failed")
	if err != nil {
		return api.NodeCondition{Unknown: true, Why: "the condition is " + err.Error()}
	}
	c := api.NodeCondition{Type: w.Type, Failed: w.Failed, Unknown: w.Unknown}
	if json.Unmarshal(w.Why, &c.Why) != nil {
		c.Why = "" // it is for people, and decides nothing
	}
	if field != nil {
		c.Unknown, c.Why = true, Clip(field.Error())
	}
	return c
}

// Unreadable returns the facts of a node whose latest facts are not readable: the last known ones, with a condition that
// has the cause. The node itself runs.
func Unreadable(last api.NodeFacts, cause error) api.NodeFacts {
	all := slices.DeleteFunc(slices.Clone(last.Conditions), func(c api.NodeCondition) bool { return c.Type == unreadableFacts })
	last.Outdated = true
	last.Conditions = append(all[:min(len(all), pools.MaxConditions-1)], api.NodeCondition{Type: unreadableFacts, Unknown: true, Why: Clip(cause.Error())})
	return last
}

// KeepConditions returns the conditions that a node reports in facts, after those that it reported last. An Unknown one that had
// failed is still failed. If a condition has no readable type, the last ones that the list omits are Unknown.
func KeepConditions(list, last []api.NodeCondition) []api.NodeCondition {
	partial := slices.IndexFunc(list, func(c api.NodeCondition) bool { return c.Type == invalidConditions })
	if partial < 0 {
		return Keep(list, last, false, pools.MaxConditions)
	}
	invalid := list[partial]
	last = slices.DeleteFunc(slices.Clone(last), func(c api.NodeCondition) bool {
		return c.Type == invalidConditions || c.Type == unreadableFacts
	})
	return append(Keep(slices.Delete(list, partial, partial+1), last, true, pools.MaxConditions-1), invalid)
}

// Keep returns the conditions of a list, after the last known ones. An Unknown one that had failed is still failed. If the list
// is partial, the last ones that it omits are Unknown. There are at most limit, unless the list has more. Keep may change the list.
func Keep(list, last []api.NodeCondition, partial bool, limit int) []api.NodeCondition {
	for _, l := range last {
		i := slices.IndexFunc(list, func(c api.NodeCondition) bool { return c.Type == l.Type })
		switch {
		case i >= 0:
			list[i].Failed = list[i].Failed || list[i].Unknown && l.Failed
		case partial && len(list) < limit:
			list = append(list, api.NodeCondition{Type: l.Type, Failed: l.Failed, Unknown: true, Why: "a part of the latest report is not readable"})
		}
	}
	return list
}

// Conditions returns the usable conditions of a list, which may have at most limit, and the mistakes of the others. A type
// that occurs twice with different results is Unknown. The texts are printable and within their bounds.
func Conditions(list []api.NodeCondition, limit int) (out []api.NodeCondition, err error) {
	var errs []error
	for i, c := range list {
		c.Why = Clip(c.Why)
		same := slices.IndexFunc(out, func(o api.NodeCondition) bool { return o.Type == c.Type })
		switch {
		case c.Type == "" || len(c.Type) > pools.MaxConditionType || !IsPrintable(c.Type):
			errs = append(errs, fmt.Errorf("condition %d has type %.80q: want 1 to %d printable bytes", i, c.Type, pools.MaxConditionType))
		case same >= 0 && (out[same].Failed != c.Failed || out[same].Unknown != c.Unknown):
			out[same].Unknown, out[same].Why = true, "it occurs twice, with different results"
		case same >= 0:
		case len(out) == limit:
			errs = append(errs, fmt.Errorf("%d conditions: at most %d are allowed", len(list), limit))
			return out, errors.Join(errs...)
		default:
			out = append(out, c)
		}
	}
	return out, errors.Join(errs...)
}
