package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// Limits of the input.
const (
	maxLine    = 16 << 20   // bytes of one line
	maxNodes   = 100_000    // nodes of one line
	maxAdvance = 31_536_000 // seconds of one line: a year
	maxSince   = 1 << 40    // seconds from the start, before or after
)

// allowed lists the valid lines. A jsonlines.Error ends with it.
const allowed = `a line is one of {"policy": {...}}, {"nodes": [{"id": ..., "zone": ..., "since": SECONDS}]}, ` +
	`{"observe": {"node": ..., "mode": ..., "verdict": "ok"|"fail"|"unknown", "reason": ...}}, ` +
	`{"outcome": {"node": ..., "action": ..., "ok": true|false}}, {"pause": {"node": ..., "owner": ..., "ttl": SECONDS}}, ` +
	`{"resume": {"node": ..., "owner": ...}}, {"hint": {"node": ...}}, {"recover": {"node": ...}}, {"release": {"node": ...}}, ` +
	`{"path": {"down": true|false}}, {"repair_owner": {"other": true|false}}, {"advance": SECONDS}`

// line is one line of the input: a judge.Event, or one of the types below.
type line any

type (
	policyLine  struct{ policy judge.Policy }
	nodesLine   []listed
	advanceLine int64
)

// listed is a node of a nodesLine.
type listed struct {
	ID    string         `json:"id"`
	Zone  string         `json:"zone"`
	Since *float64       `json:"since"`
	State judge.Provided `json:"state"`
}

// paused is a judge.Pause with its TTL in seconds.
type paused struct {
	Node  string         `json:"node"`
	Owner string         `json:"owner"`
	TTL   judge.Duration `json:"ttl"`
	Why   string         `json:"why"`
}

// parse reads a line: an object with one key.
func parse(data []byte) (line, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("is not a JSON object: %w", err)
	}
	if len(fields) != 1 {
		return nil, fmt.Errorf("has the keys %.200q: want one key", slices.Sorted(maps.Keys(fields)))
	}
	for key, value := range fields {
		parser, known := parserOf(key)
		if !known {
			return nil, fmt.Errorf("has unknown key %.100q", key)
		}
		l, err := parser(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		return l, nil
	}
	return nil, nil
}

func parserOf(key string) (parser func(json.RawMessage) (line, error), known bool) {
	switch key {
	case "policy":
		return parsePolicy, true
	case "nodes":
		return parseNodes, true
	case "observe":
		return parseObserve, true
	case "outcome":
		return parseOutcome, true
	case "pause":
		return parsePause, true
	case "resume":
		return parseEvent[judge.Resume], true
	case "hint":
		return parseEvent[judge.Hint], true
	case "window":
		return parseEvent[judge.Window], true
	case "recover":
		return parseRecover, true
	case "release":
		return parseEvent[judge.Release], true
	case "path":
		return parseEvent[judge.PathProof], true
	case "repair_owner":
		return parseEvent[judge.RepairOwner], true
	case "advance":
		return parseAdvance, true
	}
	return nil, false
}

func parseEvent[E judge.Event](data json.RawMessage) (line, error) {
	var ev E
	err := strictjson.Decode(data, &ev)
	return ev, err
}

func parsePolicy(data json.RawMessage) (line, error) {
	var p policyLine
	if err := strictjson.Decode(data, &p.policy); err != nil {
		return nil, err
	}
	return p, p.policy.Validate()
}

func parseNodes(data json.RawMessage) (line, error) {
	var nodes nodesLine
	if err := strictjson.Decode(data, &nodes); err != nil {
		return nil, err
	}
	if len(nodes) > maxNodes {
		return nil, fmt.Errorf("has %d nodes: want at most %d", len(nodes), maxNodes)
	}
	states := []judge.Provided{judge.Running, judge.Stopped, judge.Terminated, judge.Spot, judge.Leaving}
	seen := map[string]bool{}
	for _, n := range nodes {
		switch {
		case n.ID == "" || seen[n.ID]:
			return nil, fmt.Errorf("node %.100q: id is empty or not unique", n.ID)
		case !slices.Contains(states, n.State):
			return nil, fmt.Errorf(`node %.100s: state is %.40q: want "", "stopped", "terminated", "spot" or "leaving"`, n.ID, n.State)
		case n.Since != nil && !(*n.Since >= -maxSince && *n.Since <= maxSince):
			return nil, fmt.Errorf("node %.100s: since is %v: want seconds of the virtual time", n.ID, *n.Since)
		}
		seen[n.ID] = true
	}
	return nodes, nil
}

func parseObserve(data json.RawMessage) (line, error) {
	var o judge.Observation
	if err := strictjson.Decode(data, &o); err != nil {
		return nil, err
	}
	if o.Verdict == "pass" {
		o.Verdict = api.CheckOK
	}
	modes := judge.ModeTypes()
	switch {
	case !slices.Contains(modes, o.Mode):
		return nil, fmt.Errorf("mode is %.40q: want one of %s", o.Mode, join(modes))
	case o.Verdict != api.CheckOK && o.Verdict != api.CheckFail && o.Verdict != api.CheckUnknown:
		return nil, fmt.Errorf("verdict is %.40q: want ok, fail or unknown", o.Verdict)
	}
	return o, nil
}

func parseOutcome(data json.RawMessage) (line, error) {
	var o judge.Outcome
	if err := strictjson.Decode(data, &o); err != nil {
		return nil, err
	}
	actions := []api.RepairAction{"", api.ActionStart, api.ActionReboot, api.ActionRebuild, api.ActionRecreate, api.ActionWorkflow}
	steps := []judge.Step{"", judge.StepFence, judge.StepDone, judge.StepVerified, judge.StepUndone, judge.StepEscalate}
	switch {
	case !slices.Contains(actions, o.Action):
		return nil, fmt.Errorf("action is %.40q: want one of %s, or no action", o.Action, join(actions[1:]))
	case !slices.Contains(steps, o.Step):
		return nil, fmt.Errorf("step is %.40q: want one of %s, or no step", o.Step, join(steps[1:]))
	}
	return o, nil
}

func parsePause(data json.RawMessage) (line, error) {
	var p paused
	if err := strictjson.Decode(data, &p); err != nil {
		return nil, err
	}
	if p.Owner == "" {
		return nil, errors.New("has no owner")
	}
	return judge.Pause{Node: p.Node, Owner: p.Owner, TTL: time.Duration(p.TTL), Why: p.Why}, nil
}

func parseRecover(data json.RawMessage) (line, error) {
	var r struct {
		Node string         `json:"node"`
		By   string         `json:"by"`
		For  judge.Duration `json:"for"`
	}
	if err := strictjson.Decode(data, &r); err != nil {
		return nil, err
	}
	return judge.Recover{Node: r.Node, By: r.By, For: time.Duration(r.For)}, nil
}

func parseAdvance(data json.RawMessage) (line, error) {
	var seconds int64
	if err := strictjson.Decode(data, &seconds); err != nil || seconds < 0 || seconds > maxAdvance {
		return nil, fmt.Errorf("is %.40s: want a whole number of seconds, at most %d", data, maxAdvance)
	}
	return advanceLine(seconds), nil
}

func join[T ~string](all []T) string {
	texts := make([]string, len(all))
	for i, t := range all {
		texts[i] = string(t)
	}
	return strings.Join(texts, ", ")
}
