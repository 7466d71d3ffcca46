package senlin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

const recoveryPath = "properties.recovery"

func (r *reader) recovery(properties fields) judge.Recovery {
	root, ok := properties["recovery"]
	if !ok {
		root = strictyaml.Value{Kind: strictyaml.Map}
		r.lose(recoveryPath, "is missing: Senlin then recreates, and this policy does too")
	}
	r.lines["recovery"] = root.Line
	f := r.object(root, recoveryPath, "actions", "fencing", "node_delete_timeout", "node_force_recreate")
	out := judge.Recovery{
		NodeDeleteTimeout: r.seconds(f, recoveryPath, "node_delete_timeout", 20),
		NodeForceRecreate: r.flag(f, recoveryPath, "node_force_recreate", false),
	}
	r.lines["recovery.node_delete_timeout"] = f["node_delete_timeout"].Line
	for i, t := range r.sequence(f["actions"], recoveryPath+".actions") {
		r.lines[fmt.Sprintf("recovery.actions[%d]", i)] = t.Line
		out.Actions = append(out.Actions, r.action(t.Value, fmt.Sprintf("%s.actions[%d]", recoveryPath, i)))
	}
	if len(out.Actions) == 0 {
		out.Actions = []judge.Action{recreate()}
	}
	for i, t := range r.sequence(f["fencing"], recoveryPath+".fencing") {
		at := fmt.Sprintf("%s.fencing[%d]", recoveryPath, i)
		r.lines[fmt.Sprintf("recovery.fencing[%d]", i)] = t.Line
		out.Fencing = append(out.Fencing, judge.Level(r.oneOf(t.Value, at, string(judge.FenceCompute), string(judge.FenceNetwork))))
	}
	if !slices.ContainsFunc(out.Actions, func(a judge.Action) bool { return a.Name == api.ActionRecreate }) {
		r.leaveOut(&out)
	}
	r.compare(f, out)
	return out
}

// leaveOut drops the keys about replacements from a recovery without replacements.
func (r *reader) leaveOut(out *judge.Recovery) {
	out.NodeDeleteTimeout, out.NodeForceRecreate = nil, false
	r.lose(recoveryPath+".node_delete_timeout", "is dropped, and node_force_recreate too: no action of this policy replaces a machine")
	if len(out.Fencing) > 0 {
		out.Fencing = nil
		r.lose(recoveryPath+".fencing", "is dropped: no action of this policy replaces a machine, and fencing only precedes a replacement")
	}
}

// compare reports differences in the recovery.
func (r *reader) compare(f fields, out judge.Recovery) {
	if len(out.Fencing) > 0 {
		r.lose(recoveryPath+".fencing", "was accepted by Senlin and never carried out; here no machine is replaced before it is confirmed "+
			"to be stopped or terminated (fencing_options)")
	}
	if _, given := f["node_delete_timeout"]; out.NodeDeleteTimeout != nil && (!given || *out.NodeDeleteTimeout < judge.Duration(3*time.Minute)) {
		r.lose(recoveryPath+".node_delete_timeout", "is %v: machines of other providers may take minutes to end; the default here is 3m0s", *out.NodeDeleteTimeout)
	}
	if out.NodeForceRecreate {
		r.lose(recoveryPath+".node_force_recreate", "permits two machines of one identity at a time, as in Senlin: an exclusive pool rejects it")
	}
	r.lose(recoveryPath, "Senlin repaired all unhealthy nodes of a round at once, and retried each one for ever; here the defaults of safety apply: "+
		"one at a time, limited by rate, no repair while too many are unhealthy, quarantine after 3 attempts")
}

// recreate returns Senlin's form of RECREATE: the old machine ends first.
func recreate() judge.Action {
	return judge.Action{Name: api.ActionRecreate, Params: judge.Params{LaunchFirst: new(false)}}
}

// mistral is Senlin's name for a workflow.
const mistral = "MISTRAL_WORKFLOW"

func (r *reader) action(t strictyaml.Value, path string) judge.Action {
	f := r.object(t, path, "name", "type", "params")
	name, ok := f["name"]
	if !ok {
		r.wrong(t, path+".name", "is missing")
		return judge.Action{}
	}
	params := fields{}
	if p, ok := f["params"]; ok && p.Kind != strictyaml.Null {
		params = r.free(p, path+".params")
	}
	if typed, ok := f["type"]; ok { // the form of the specification: name is the workflow's name
		r.oneOf(typed, path+".type", mistral)
		return r.named(t, r.scalar(f, path, "name"), params, path)
	}
	switch r.oneOf(name, path+".name", string(api.ActionReboot), string(api.ActionRebuild), string(api.ActionRecreate), string(api.ActionWorkflow), mistral) {
	case string(api.ActionReboot):
		return r.reboot(params, path)
	case string(api.ActionRebuild):
		return r.rebuild(params, path)
	case string(api.ActionRecreate):
		r.lose(path, "Senlin deletes the old machine before it creates the new one, and this policy does too (launch_first: false); "+
			"launch_first: true keeps the capacity")
		r.reportUnused(params, path)
		return recreate()
	default:
		return r.workflow(t, params, path)
	}
}

// free reads a map with any keys.
func (r *reader) free(t strictyaml.Value, path string) fields {
	var keys []string
	for _, p := range t.Entries {
		keys = append(keys, p.Key)
	}
	return r.object(t, path, keys...)
}

// reportUnused reports parameters that no action uses.
func (r *reader) reportUnused(params fields, path string, used ...string) {
	for _, key := range slices.Sorted(maps.Keys(params)) {
		if !slices.Contains(used, key) {
			r.lose(path+".params."+strictyaml.Cut(key, maxShown), "is dropped: Senlin ignored it, and no action here has it")
		}
	}
}

func (r *reader) reboot(params fields, path string) judge.Action {
	a := judge.Action{Name: api.ActionReboot, Params: judge.Params{Type: "hard"}}
	if given := r.scalar(params, path+".params", "type"); given != "" {
		a.Params.Type = strings.ToLower(given)
		if a.Params.Type != "soft" && a.Params.Type != "hard" {
			r.wrong(params["type"], path+".params.type", "is %s: want soft, hard", shown(params["type"]))
		}
		r.lose(path+".params.type", "was ignored by Senlin, which always rebooted hard; here it takes effect: %s", a.Params.Type)
	}
	r.reportUnused(params, path, "type")
	return a
}

func (r *reader) rebuild(params fields, path string) judge.Action {
	a := judge.Action{Name: api.ActionRebuild}
	if image := r.scalar(params, path+".params", "image"); image != "" {
		a.Params.Image = image
		r.lose(path+".params.image", "was ignored by Senlin, which rebuilt from the machine's own image; here it takes effect: "+
			"set the name of the image at this pool's provider")
	}
	r.reportUnused(params, path, "image")
	return a
}

// named reads a workflow by its own name, in the form with a type. Each param that workflow does
// not read is an input.
func (r *reader) named(t strictyaml.Value, name string, params fields, path string) judge.Action {
	known, inputs := fields{}, fields{}
	for key, value := range params {
		if key == "workflow_name" || key == "inputs" {
			known[key] = value
		} else {
			inputs[key] = value
		}
	}
	a := r.run(t, cmp.Or(r.scalar(params, path+".params", "workflow_name"), name), known, path)
	for _, key := range slices.Sorted(maps.Keys(inputs)) {
		a.Params.Input[key] = r.input(inputs[key], path+".params."+strictyaml.Cut(key, maxShown))
	}
	return a
}

// workflow reads the form that Senlin specified and never ran.
func (r *reader) workflow(t strictyaml.Value, params fields, path string) judge.Action {
	return r.run(t, r.scalar(params, path+".params", "workflow_name"), params, path)
}

// run returns the workflow of that name. A NATS request replaces Mistral. Until a service responds
// to it, the action fails and does nothing.
func (r *reader) run(t strictyaml.Value, name string, params fields, path string) judge.Action {
	if name == "" {
		r.wrong(t, path+".params.workflow_name", "is missing")
	}
	a := judge.Action{Name: api.ActionWorkflow, Params: judge.Params{
		Kind: "nats", Subject: "mistral." + names.Token(name),
		Input: map[string]string{"workflow_name": name, "cluster_id": "{{ cluster.name }}", "node_id": "{{ node.physicalid }}"},
	}}
	if in, ok := params["inputs"]; ok && in.Kind != strictyaml.Null {
		inputs := r.free(in, path+".params.inputs")
		for _, key := range slices.Sorted(maps.Keys(inputs)) {
			a.Params.Input[key] = r.input(inputs[key], path+".params.inputs."+strictyaml.Cut(key, maxShown))
		}
	}
	r.lose(path, "Senlin never ran workflows, and there is no Mistral here: set the service that runs it. Unchanged, a request goes to the NATS subject %s, "+
		"and the action fails while no service responds; the alternatives are kind webhook with a url, and command with argv", a.Params.Subject)
	r.reportUnused(params, path, "workflow_name", "inputs")
	return a
}

// input returns an input as text. A map or list is in JSON.
func (r *reader) input(t strictyaml.Value, path string) string {
	if strings.Contains(t.Text, "<%") || strings.Contains(t.Text, "{{") {
		r.lose(path, "may be an expression of Mistral: it is passed on unchanged, and {{ }} accepts only the names of this policy, such as node.physicalid")
	}
	if t.Kind != strictyaml.Map && t.Kind != strictyaml.List {
		return t.Text
	}
	if problem := t.NotDecimal(); problem != nil {
		r.wrong(t, path, "%s", problem.What)
	}
	r.lose(path, "is %s: an input is text here, so it is converted to JSON", t.Kind)
	data, err := json.Marshal(r.plain(t))
	if err != nil {
		r.wrong(t, path, "cannot be written in JSON: %v", err)
	}
	return string(data)
}

// plain returns a value in its JSON form.
func (r *reader) plain(t strictyaml.Value) any {
	switch t.Kind {
	case strictyaml.Null:
		return nil
	case strictyaml.Flag:
		return strings.EqualFold(t.Text, "true")
	case strictyaml.Number:
		if json.Valid([]byte(t.Text)) {
			return json.Number(t.Text)
		}
	case strictyaml.List:
		out := make([]any, len(t.Entries))
		for i, item := range t.Entries {
			out[i] = r.plain(item.Value)
		}
		return out
	case strictyaml.Map:
		out := map[string]any{}
		for _, p := range t.Entries {
			out[p.Key] = r.plain(p.Value)
		}
		return out
	}
	return t.Text
}
