package wire

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/resource"
)

// FactsOf decodes the facts from the subject of a node. It returns an error if they are of another node or pool, or
// invalid; see DecodeFacts.
func FactsOf(node message.Node, data []byte) (api.NodeFacts, error) {
	f, err := DecodeFacts(data)
	if err == nil && (f.ID != node.Name || f.Pool != node.Pool) {
		err = fmt.Errorf("subject of node %.200q: the facts are of node %.200q", node, message.Node{Pool: f.Pool, Name: f.ID})
	}
	return f, err
}

// Bounds of the facts of a node.
const (
	maxText  = pools.MaxConditionWhy // bytes of a text
	maxTasks = message.MaxBeats      // tasks of a node
)

// wireFacts are the facts on the wire.
type wireFacts struct {
	api.NodeFacts
	Resources  amounts     `json:"resources"`
	Allocated  amounts     `json:"allocated"`
	Conditions []condition `json:"conditions"`
	Overhead   amounts     `json:"overhead"`
	// Blocked is for people and decides nothing, so an unreadable list is dropped.
	Blocked json.RawMessage `json:"blocked"`
}

// vector returns the amounts as a resource.Vector.
func (a amounts) vector() resource.Vector { return resource.Vector{a.CPUs, a.Mem, a.Disk, a.GPUs} }

// amounts are a resource.Vector on the wire.
type amounts struct {
	CPUs float64 `json:"cpus"`
	Mem  float64 `json:"mem"`
	Disk float64 `json:"disk"`
	GPUs float64 `json:"gpus"`
}

// required returns the keys without which facts are not readable: what would let the pool shrink, start copies elsewhere, or end
// work if it counted as 0 or "".
func required() []string {
	return []string{"id", "pool", "boot_id", "tasks", "resources", "resources.cpus", "resources.mem", "resources.disk",
		"allocated", "allocated.cpus", "allocated.mem", "allocated.disk"}
}

// DecodeFacts decodes the facts that a node published, by the rules of strictjson.Lenient. It returns an error if a part is not
// readable, missing, or out of its bounds, except for a condition: that one is unknown. Conditions without a readable type, and
// those beyond their bound, are one unknown condition together.
func DecodeFacts(data []byte) (api.NodeFacts, error) {
	if len(data) > message.MaxNodeMessage {
		return api.NodeFacts{}, fmt.Errorf("node facts have %d bytes: at most %d are allowed", len(data), message.MaxNodeMessage)
	}
	var w wireFacts
	if err := cmp.Or(strictjson.Lenient(data, &w, required()...)); err != nil {
		return api.NodeFacts{}, fmt.Errorf("node facts: %w", err)
	}
	f := w.NodeFacts
	f.Resources, f.Allocated, f.Overhead, f.Blocked = w.Resources.vector(), w.Allocated.vector(), w.Overhead.vector(), blocked(w.Blocked)
	f.ClockAhead = 0 // only a receiver has it
	if err := validateFacts(f); err != nil {
		return api.NodeFacts{}, fmt.Errorf("node facts: %w", err)
	}
	for _, c := range w.Conditions {
		f.Conditions = append(f.Conditions, api.NodeCondition(c))
	}
	usable, err := Conditions(f.Conditions, pools.MaxConditions)
	if f.Conditions = usable; err != nil {
		invalid := api.NodeCondition{Type: invalidConditions, Unknown: true, Why: Clip(err.Error())}
		f.Conditions = append(usable[:min(len(usable), pools.MaxConditions-1)], invalid)
	}
	return f, nil
}

// blocked decodes the tasks that a drain cannot move: at most api.MaxBlocked, with printable texts.
func blocked(raw json.RawMessage) []api.BlockedTask {
	var all []api.BlockedTask
	if len(raw) == 0 || json.Unmarshal(raw, &all) != nil {
		return nil
	}
	all = all[:min(len(all), api.MaxBlocked)]
	for i := range all {
		all[i].Task, all[i].Why = Clip(all[i].Task), Clip(all[i].Why)
	}
	return all
}

// validateFacts returns the first value that is out of its bounds. It does not check the conditions.
func validateFacts(f api.NodeFacts) error {
	if err := names.CheckToken("node", f.ID); err != nil {
		return err
	}
	for _, v := range []struct {
		key   string
		value resource.Vector
	}{{"resources", f.Resources}, {"allocated", f.Allocated}, {"overhead", f.Overhead}} {
		if err := v.value.Validate(); err != nil {
			return fmt.Errorf("%s: %w", v.key, err)
		}
		if largest := max(v.value[0], v.value[1], v.value[2], v.value[3]); largest > message.MaxResource {
			return fmt.Errorf("%s has %v: want at most %v", v.key, largest, float64(message.MaxResource))
		}
	}
	for _, t := range []struct{ key, text string }{{"group", f.Group}, {"boot_id", f.BootID}, {"zone", f.Zone}, {"rival", f.Rival}, {"cordoned_by", string(f.CordonedBy)}} {
		if len(t.text) > maxText || !IsPrintable(t.text) {
			return fmt.Errorf("%s: want at most %d printable bytes", t.key, maxText)
		}
	}
	slots := api.Slots{}
	if f.Slots != nil {
		slots = *f.Slots
	}
	for _, n := range []struct {
		key   string
		value int
	}{{"tasks", f.Tasks}, {"batch_tasks", f.BatchTasks}, {"unready", f.Unready}, {"slots.all", slots.All}, {"slots.used", slots.Used}} {
		if n.value < 0 || n.value > maxTasks {
			return fmt.Errorf("%s is %d: want 0 to %d", n.key, n.value, maxTasks)
		}
	}
	if f.Heartbeat < 0 || f.Priority < 0 {
		return fmt.Errorf("heartbeat is %d and priority %v: want at least 0", int64(f.Heartbeat), f.Priority)
	}
	return nil
}

func IsPrintable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// Clip turns a text into a valid Why of a condition. It cuts a long text at a space.
func Clip(s string) string {
	if s = prose.Line(s, len(s)); len(s) > pools.MaxConditionWhy {
		s = prose.Words(s, pools.MaxConditionWhy-len(" ..."))
	}
	return s
}
