package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	diff "github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/weirkeeper/weirkeeper/internal/cli"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/history"
)

// object is a JSON object.
type object = map[string]any

// decideAll gives the lines to "weir decide", and returns its answers.
func decideAll(t testing.TB, lines []object) []object {
	t.Helper()
	var in, out bytes.Buffer
	for _, line := range lines {
		data, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		in.Write(append(data, '\n'))
	}
	if code := cli.Run([]string{"decide"}, &in, &out, io.Discard); code != command.ExitOK && code != command.ExitUsage { // a table may have wrong lines only
		t.Fatalf("weir decide ends with %d", code)
	}
	var answers []object
	scanner := bufio.NewScanner(&out)
	scanner.Buffer(nil, history.MaxRecord)
	for scanner.Scan() {
		answers = append(answers, decodeObject(t, scanner.Bytes()))
	}
	if len(answers) != len(lines) {
		t.Fatalf("%d answers to %d lines", len(answers), len(lines))
	}
	return answers
}

func decodeObject(t testing.TB, data []byte) object {
	t.Helper()
	var o object
	if err := json.Unmarshal(data, &o); err != nil {
		t.Fatalf("%.300s: %v", data, err)
	}
	return o
}

// oracle reads vectors of the original, from the folder ORACLE_DIR if that is set.
func oracle(t *testing.T, folder, name string) []object {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(cmp.Or(os.Getenv("ORACLE_DIR"), filepath.Join("..", "..", folder, "testdata", "oracle")), name))
	if err != nil {
		t.Fatal(err)
	}
	var rows []object
	for line := range bytes.Lines(data) {
		rows = append(rows, decodeObject(t, line))
	}
	if len(rows) == 0 {
		t.Fatalf("%s has no vectors", name)
	}
	return rows
}

// limits are scaling limits that bound nothing, with others in their place.
func limits(change object) object {
	l := object{"min_capacity": 0, "max_capacity": "inf", "max_weight_to_add": "inf", "max_weight_to_remove": "inf", "max_tasks_to_kill": "inf"}
	maps.Copy(l, change)
	return object{"scaling_limits": l, "autoscaling": object{"setpoint": 1, "target_capacity_margin": 0}}
}

// kinds makes an object by resource of a list, without what keep refuses.
func kinds(list any, keep func(any) bool) object {
	o := object{}
	for i, name := range []string{"cpus", "mem", "disk", "gpus"} {
		if values, ok := list.([]any); ok && keep(values[i]) {
			o[name] = values[i]
		}
	}
	return o
}

func always(any) bool    { return true }
func notZero(x any) bool { return x != 0.0 }
func same(x, y any) bool { return reflect.DeepEqual(x, y) }

// TestOracleCompute: the target, to the last bit.
func TestOracleCompute(t *testing.T) {
	rows := oracle(t, "autoscaler/decide", "compute.jsonl")
	var lines []object
	for _, r := range rows {
		policy := limits(nil)
		policy["autoscaling"] = object{"setpoint": r["setpoint"], "target_capacity_margin": r["margin"], "excluded_resources": r["excluded"]}
		if r["excluded"] == nil {
			delete(policy["autoscaling"].(object), "excluded_resources")
		}
		lines = append(lines, object{
			"policy": policy, "history": kinds(r["history"], notZero),
			"pool":    object{"target_capacity": r["target"], "non_orphan_fulfilled_capacity": r["non_orphan"], "total": kinds(r["totals"], always)},
			"signals": []object{{"app": "a", "Resources": kinds(r["request"], always)}},
		})
	}
	for i, answer := range decideAll(t, lines) {
		if !same(answer["target_capacity"], rows[i]["want"]) {
			t.Errorf("vector %d: %v, want %v", i, answer, rows[i]["want"])
		}
	}
}

// TestOracleConstrain: the limits. The vectors have the target before them,
// which is a pin.
func TestOracleConstrain(t *testing.T) {
	rows := oracle(t, "autoscaler/decide", "constrain.jsonl")
	var lines []object
	for _, r := range rows {
		lines = append(lines, object{
			"policy": limits(object{"min_capacity": r["min"], "max_capacity": r["max"], "max_weight_to_add": r["add"], "max_weight_to_remove": r["remove"]}),
			"pool":   object{"target_capacity": r["target"]}, "signals": []object{}, "pinned": r["requested"], "no_scale_down": r["no_scale_down"] == true,
		})
	}
	for i, answer := range decideAll(t, lines) {
		got, _ := answer["target_capacity"].(float64)
		if want := rows[i]["want"].(float64); !(math.Abs(got-want) <= 1e-9) {
			t.Errorf("vector %d: %v, want %v", i, answer, want)
		}
	}
}

// TestOracleDistribute: the groups' targets.
func TestOracleDistribute(t *testing.T) {
	rows := oracle(t, "pools/plan", "distribute.jsonl")
	var lines []object
	for _, r := range rows {
		lines = append(lines, object{"policy": limits(nil), "pool": object{"groups": r["groups"]}, "signals": []object{}, "pinned": r["new"]})
	}
	for i, answer := range decideAll(t, lines) {
		if refused := rows[i]["error"] != nil; refused != (answer["error"] != nil) || !refused && !same(answer["groups"], rows[i]["want"]) {
			t.Errorf("vector %d: %v, want %v %v", i, answer, rows[i]["want"], rows[i]["error"])
		}
	}
}

// TestOraclePrune: the instances to terminate. A tick shares the target out before it prunes, so
// only vectors count with group targets that a tick could have requested.
func TestOraclePrune(t *testing.T) {
	var rows, lines []object
	for _, r := range oracle(t, "pools/plan", "prune.jsonl") {
		sum, groups := 0.0, []object{}
		for id, target := range r["group_targets"].(object) {
			sum += target.(float64)
			groups = append(groups, object{"id": id, "target": target})
		}
		if sum != r["new_target"] {
			continue
		}
		l := r["limits"].(object)
		policy := limits(object{
			"max_weight_to_remove": l["max_weight_to_remove"], "max_tasks_to_kill": l["max_tasks_to_kill"],
			"min_node_scalein_uptime_seconds": l["min_node_scalein_uptime"],
		})
		policy["autoscaling"] = object{"orphan_instance_uptime_threshold_seconds": 0, "killable_nodes_prioritizing_v2": l["killable_nodes_prioritizing_v2"] == true}
		rows = append(rows, r)
		lines = append(lines, object{
			"policy": policy, "signals": []object{{"app": "a", "Resources": object{}}},
			"pool": object{"target_capacity": r["new_target"], "non_orphan_fulfilled_capacity": r["non_orphan"], "groups": groups, "nodes": r["nodes"]},
		})
	}
	if len(rows) < 50 {
		t.Fatalf("%d vectors are left", len(rows))
	}
	for i, answer := range decideAll(t, lines) {
		if d := diff.Diff(chosenIDs(rows[i]["want"]), chosenIDs(answer["terminate"])); d != "" {
			t.Errorf("vector %d (-want +got):\n%s%v", i, d, answer["error"])
		}
	}
}

// chosenIDs are the ids of each group from which some are let go.
func chosenIDs(byGroup any) map[string][]string {
	out := map[string][]string{}
	groups, _ := byGroup.(object)
	for group, ids := range groups {
		for _, id := range ids.([]any) {
			out[group] = append(out[group], id.(string))
		}
		slices.Sort(out[group])
	}
	return out
}

// scriptDecides is the command "decides BASE TABLE" of scripts. Each line of TABLE
// but for empty ones and those that begin with # is
//
//	PATCH => ANSWER
//
// both in JSON: PATCH is merged into BASE (RFC 7396), and what ANSWER names has to be
// in the answer of "weir decide". A patch that begins with + is merged into the line
// before, with the state that was answered there.
func scriptDecides(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: decides BASE TABLE")
	}
	t := scriptTB{ts: ts}
	base := decodeObject(t, []byte(ts.ReadFile(args[0])))
	var line, answer object
	n, rows := 0, 0
	for row := range strings.Lines(ts.ReadFile(args[1])) {
		n++
		row = strings.TrimSpace(row)
		if row == "" || strings.HasPrefix(row, "#") {
			continue
		}
		patch, want, ok := strings.Cut(row, "=>")
		if !ok {
			ts.Fatalf("%s:%d: want PATCH => ANSWER", args[1], n)
		}
		patch, goesOn := strings.CutPrefix(strings.TrimSpace(patch), "+")
		if goesOn {
			line = merged(line, object{"state": nil}).(object)
			line["state"] = answer["state"]
		} else {
			line = base
		}
		line = merged(line, any(decodeObject(t, []byte(patch)))).(object)
		answer = decideAll(t, []object{line})[0]
		rows++
		for key, value := range decodeObject(t, []byte(want)) {
			if !within(value, answer[key]) {
				ts.Fatalf("%s:%d: %s is %s, want %s\n%s", args[1], n, key, encoded(answer[key]), encoded(value), encoded(answer))
			}
		}
	}
	ts.Logf("%d rows", rows)
}

func encoded(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
}

// merged is value with patch merged in, by RFC 7396; neither is changed.
func merged(value, patch any) any {
	changes, ok := patch.(object)
	if !ok {
		return patch
	}
	before, _ := value.(object)
	out := maps.Clone(before)
	if out == nil {
		out = object{}
	}
	for key, change := range changes {
		if change == nil {
			delete(out, key)
		} else {
			out[key] = merged(out[key], change)
		}
	}
	return out
}

// within reports whether all of want is in got: of objects the named keys, of
// numbers the same but for their rounding in the table, of texts a part.
func within(want, got any) bool {
	switch want := want.(type) {
	case object:
		g, ok := got.(object)
		for key, value := range want {
			ok = ok && within(value, g[key])
		}
		return ok
	case float64:
		g, ok := got.(float64)
		return ok && math.Abs(g-want) <= 1e-4*max(1, math.Abs(want))
	case string:
		g, ok := got.(string)
		return ok && strings.Contains(g, want)
	case []any:
		g, ok := got.([]any)
		return ok && len(g) == len(want) && reflect.DeepEqual(g, want)
	}
	return reflect.DeepEqual(want, got)
}
