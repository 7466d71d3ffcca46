package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const nameHint = "want letters, digits, - and _, at most 63, beginning with a letter or digit"

func TestLimits(t *testing.T) {
	limits := func(keys string) string {
		return "resource_groups:\n  - local: {name: blue, min: 1, max: 3, machine: {cpus: 1, mem: 1024}}\nscaling_limits:\n" + keys
	}
	const rest = "  max_weight_to_add: 2\n  max_weight_to_remove: 1\n"
	for _, c := range []struct{ name, text, want string }{
		{"good", limits("  min_capacity: 0\n  max_capacity: 0.5\n" + rest), ""},
		{"equal", limits("  min_capacity: 3\n  max_capacity: 3\n" + rest), ""},
		{"min above max", limits("  min_capacity: 30\n  max_capacity: 20\n" + rest), "FILE:4: scaling_limits.min_capacity: is 30, above max_capacity 20 on line 5: want min_capacity <= max_capacity"},
		{"max first", limits("  max_capacity: 2.5\n  min_capacity: 3\n" + rest), "FILE:5: scaling_limits.min_capacity: is 3, above max_capacity 2.5 on line 4: want min_capacity <= max_capacity"},
		{"one is missing", limits("  min_capacity: 3\n" + rest), "FILE:3: scaling_limits.max_capacity: is missing: want " + weights},
		{"negative", limits("  min_capacity: -1\n  max_capacity: 3\n" + rest), "FILE:4: scaling_limits.min_capacity: is -1: want at least 0"},
		{"no bounds", limits("  min_capacity: 0\n  max_capacity: inf\n  max_weight_to_add: inf\n  max_weight_to_remove: .inf\n"), ""},
		{"no least", limits("  min_capacity: inf\n  max_capacity: inf\n" + rest), "FILE:4: scaling_limits.min_capacity: is inf: want a number"},
		{"a word", limits("  min_capacity: 1\n  max_capacity: many\n" + rest), "FILE:5: scaling_limits.max_capacity: is \"many\": want " + weights},
		{"nothing to add", limits("  min_capacity: 0\n  max_capacity: 3\n  max_weight_to_remove: 0\n  max_weight_to_add: 0\n"), "FILE:7: scaling_limits.max_weight_to_add: is 0: want above 0, or the pool never grows"},
		{"uptime", limits("  min_capacity: 0\n  max_capacity: 3\n  min_node_scalein_uptime_seconds: -2\n" + rest), "FILE:6: scaling_limits.min_node_scalein_uptime_seconds: is -2: want seconds, or -1 for none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readPool(t, c.text)
			expectError(t, err, c.want)
		})
	}
}

// allowed returns how the refusal of an unknown key ends: the keys in order, and a line about each. A new provider and a new
// store are in it.
func allowed(all []option) string {
	var about strings.Builder
	for _, o := range all {
		about.WriteString("\n  " + o.about)
	}
	return " (allowed: " + strings.Join(slices.Sorted(slices.Values(keysOfOptions(all))), ", ") + ")" + about.String()
}

func TestGroups(t *testing.T) {
	const limits = "\nscaling_limits: {min_capacity: 1, max_capacity: 3, max_weight_to_add: 2, max_weight_to_remove: 1}\n"
	const machine = ", machine: {cpus: 1, mem: 1024}}"
	kinds := strings.Join(keysOfOptions(Group{}.options()), ", ")
	for _, c := range []struct{ name, groups, want string }{
		{"none", "[]", "FILE:1: resource_groups: is missing: a pool without groups has no machines"},
		{"empty entry", "\n  -\n", "FILE:2: resource_groups[0]: names no group: want one of " + kinds},
		{"of another kind", "[{gce: {tag: x}}]", "FILE:1: resource_groups[0].gce: no such key" + allowed(Group{}.options())},
		{"by tag", "[{asg: {tag: 'weir:pool'}}, {sfr: {tag: 'weir:pool'}}, {sfr: {s3: {bucket: b, prefix: p}}}]", ""},
		{"no tag", "[{asg: {}}]", `FILE:1: resource_groups[0].asg.tag: is missing: want the key of the tag that names the pool, such as "weir:pool"`},
		{"two ways to be found", "[{sfr: {tag: x, s3: {bucket: b, prefix: p}}}]", "FILE:1: resource_groups[0].sfr.tag: is set together with s3: remove one of them"},
		{"half a list", "[{sfr: {s3: {bucket: b}}}]", "FILE:1: resource_groups[0].sfr.s3: want bucket and prefix"},
		{"groups in a list", "[{asg: {s3: {bucket: b, prefix: p}}}]", "FILE:1: resource_groups[0].asg.s3: is only for sfr: Auto Scaling groups are found by tag"},
		{"of a server", "[{grpc: {address: 'unix:///run/m.sock', group: 'web-*'}}, {grpc: {address: 'm:1', group: db, timeout: 10s, tls: {}}}]", ""},
		{"no address", "[{grpc: {group: web}}]", `FILE:1: resource_groups[0].grpc.address: is "": want host:port or unix:///path`},
		{"a server elsewhere", "[{grpc: {address: 'm:1', group: web}}]", "FILE:1: resource_groups[0].grpc.tls: is missing: m:1 is not on this host, and each program that answers there could order and end machines; want ca_file, cert_file and key_file, or {} for the certificates of the system"},
		{"server and AWS", "[{grpc: {address: 'unix:///m', group: web}}, {asg: {tag: x}}]", "FILE:1: resource_groups[1].asg: conflicts with groups of the gRPC server: a pool has one provider"},
		{"unknown key of a server", "[{grpc: {address: 'm:1', group: web, tls: {ca: /a}}}]", "FILE:1: resource_groups[0].grpc.tls.ca: no such key (allowed: ca_file, cert_file, key_file, server_name)"},
		{"two kinds", "[{asg: {tag: x}, sfr: {tag: x}}]", "FILE:1: resource_groups[0]: names asg and sfr: want one of " + kinds},
		{"two providers", "[{asg: {tag: x}}, {local: {name: a, max: 1" + machine + "}]", "FILE:1: resource_groups[1].local: conflicts with groups of AWS: a pool has one provider"},
		{"no name", "[local: {min: 1, max: 2" + machine + "]", "FILE:1: resource_groups[0].local.name: is missing: " + nameHint},
		{"name with a space", "[local: {name: a b, min: 1, max: 2" + machine + "]", `FILE:1: resource_groups[0].local.name: is "a b": ` + nameHint},
		{"the same name", "\n  - local: {name: a, max: 2" + machine + "\n  - local: {name: a, max: 2" + machine, `FILE:3: resource_groups[1].local.name: "a" is a duplicate`},
		{"min above max", "[local: {name: a, min: 3, max: 2" + machine + "]", "FILE:1: resource_groups[0].local.max: min 3 and max 2: want 0 <= min <= max, and max at least 1"},
		{"no max", "[local: {name: a, min: 0" + machine + "]", "FILE:1: resource_groups[0].local.max: min 0 and max 0: want 0 <= min <= max, and max at least 1"},
		{"no machine", "[local: {name: a, max: 1}]", "FILE:1: resource_groups[0].local.machine: want cpus and mem above 0, disk and gpus at least 0"},
		{"negative disk", "[local: {name: a, max: 1, machine: {cpus: 1, mem: 1, disk: -1}}]", "FILE:1: resource_groups[0].local.machine: want cpus and mem above 0, disk and gpus at least 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readPool(t, "resource_groups: "+c.groups+limits)
			expectError(t, err, c.want)
		})
	}
}

func TestAutoscalingNumbers(t *testing.T) {
	for _, c := range []struct{ keys, want string }{
		{"setpoint: 1, target_capacity_margin: 0, margin_up: 0.5, margin_down: 0, tick: 100ms, combine: sum", ""},
		{"setpoint: 0", "FILE:4: autoscaling.setpoint: is 0: want above 0 and at most 1"},
		{"setpoint: 1.01", "FILE:4: autoscaling.setpoint: is 1.01: want above 0 and at most 1"},
		{"target_capacity_margin: 1", "FILE:4: autoscaling.target_capacity_margin: is 1: want at least 0 and below 1"},
		{"margin_down: -0.1, margin_up: 2", "FILE:4: autoscaling.margin_up: is 2: want at least 0 and below 1\nFILE:4: autoscaling.margin_down: is -0.1: want at least 0 and below 1"},
		{"tick: -5s", "FILE:4: autoscaling.tick: is -5s: want 100ms to 8760h"},
		{"tick: 0s", "FILE:4: autoscaling.tick: is 0s: want 100ms to 8760h"},
		{"tick: 99ms", "FILE:4: autoscaling.tick: is 99ms: want 100ms to 8760h"},
		{"combine: min", `FILE:4: autoscaling.combine: is "min": want sum or max`},
		{"excluded_resources: [disk, cpu]", `FILE:4: autoscaling.excluded_resources[1]: resource "cpu": want one of cpus, mem, disk, gpus`},
		{"cooldown: {up: 0s, down: 10m}, ignorance_max: 1h, drift: correct, instance_loss_threshold: 2, orphan_instance_uptime_threshold_seconds: 0", ""},
		{"budgets: [{direction: down, within: 10m, at_most: 10%}, {direction: up, within: 1h, at_most: 50}]", ""},
		{"budgets: [{direction: sideways, within: 10m, at_most: 5}]", `FILE:4: autoscaling.budgets[0].direction: is "sideways": want up or down`},
		{"budgets: [{direction: up}]", "FILE:4: autoscaling.budgets[0].within: is missing: want a duration such as 10m\nFILE:4: autoscaling.budgets[0].at_most: is missing: want " + amounts},
		{"budgets: [{direction: up, within: 1m, at_most: 110%}]", `FILE:4: autoscaling.budgets[0].at_most: is "110%": want ` + amounts},
		{"budgets: [{direction: up, within: 1m, at_most: 0}]", "FILE:4: autoscaling.budgets[0].at_most: is 0: want " + amounts},
		{"cooldown: {down: -1s}", "FILE:4: autoscaling.cooldown.down: is -1s: want 0s to 8760h"},
		{"lease: 3s", ""},
		{"lease: 5m", ""},
		{"lease: 0s", "FILE:4: autoscaling.lease: is 0s: want 3s to 5m"},
		{"lease: 2999ms", "FILE:4: autoscaling.lease: is 2.999s: want 3s to 5m"},
		{"lease: 301s", "FILE:4: autoscaling.lease: is 5m1s: want 3s to 5m"},
		{"drift: ignore", `FILE:4: autoscaling.drift: is "ignore": want obey or correct`},
		{"instance_loss_threshold: -1", "FILE:4: autoscaling.instance_loss_threshold: is -1: want a number of nodes of at least 0"},
		{"distribution: cheapest, max_share: 0.7", ""},
		{"distribution: balanced, interrupted_work: 0s", ""},
		{"interrupted_work: -1s", "FILE:4: autoscaling.interrupted_work: is -1s: want 0s to 8760h"},
		{"distribution: dearest", `FILE:4: autoscaling.distribution: is "dearest": want balanced or cheapest`},
		{"max_share: 0", "FILE:4: autoscaling.max_share: is 0: want above 0 and at most 1"},
		{"max_share: 70", "FILE:4: autoscaling.max_share: is 70: want above 0 and at most 1"},
		{"failed_boots: 0", ""},
		{"failed_boots: -1", "FILE:4: autoscaling.failed_boots: is -1: want a number of machines of at least 0; 0 lets a group grow however many machines never join"},
		{"default_signal_role: a/b", `FILE:4: autoscaling.default_signal_role: is "a/b": ` + nameHint},
	} {
		t.Run(c.keys, func(t *testing.T) {
			_, err := readPool(t, goodPool+"autoscaling: {"+c.keys+"}\n")
			expectError(t, err, c.want)
		})
	}
}

func TestSignals(t *testing.T) {
	entry := func(keys string) string {
		return goodPool + "autoscale_signals:\n  - {app: web, " + keys + "}\n"
	}
	const windows = ", required_metrics: [{name: m, type: app_metrics, minute_range: 1}]"
	const at = "FILE:5: autoscale_signals[0]"
	long := strings.Repeat("n", 60)
	for _, c := range []struct{ name, text, want string }{
		{"good", goodPool + signals(""), ""},
		{"only an app", goodPool + "autoscale_signals: [{app: web}]\n", ""},
		{"nothing", goodPool + "autoscale_signals: [{}]\n", "FILE:4: autoscale_signals[0].app: is missing: " + nameHint},
		{"the default signal's app", goodPool + "autoscale_signals: [{app: __default__}]\n", `FILE:4: autoscale_signals[0].app: is "__default__": ` + nameHint},
		{"two for one app", goodPool + signals("", ""), `FILE:6: autoscale_signals[1].app: "web" has a signal already: one signal for each app`},
		{"one socket for two", goodPool + "autoscale_signals:\n  - {app: c, namespace: a, name: n-b, version: v1" + windows + "}\n  - {app: b-c, namespace: a, name: n, version: v1" + windows + "}\n",
			"FILE:6: autoscale_signals[1].name: makes socket @a-n-b-c-socket, as the signal of app c does: choose another app or namespace"},
		{"period in both words", goodPool + signals(", period: 10m, period_minutes: 10"), at + ".period_minutes: conflicts with period: keep one"},
		{"negative period", goodPool + signals(", period_minutes: -5"), at + ".period_minutes: is -5: want 1 to 525600"},
		{"no period", goodPool + signals(", period_minutes: 0"), at + ".period_minutes: is 0: want 1 to 525600"},
		{"period beyond a duration", goodPool + signals(", period_minutes: 9223372036854775807"), at + ".period_minutes: is 9223372036854775807: want 1 to 525600"},
		{"period of a century", goodPool + signals(", period: 876000h"), at + ".period: is 876000h: want 100ms to 8760h"},
		{"time limit", goodPool + signals(", period: 5m, time_limit: 5m"), ""},
		{"time limit beyond the period", goodPool + signals(", period: 5m, time_limit: 301s"), at + ".time_limit: is 5m1s: want 500ms to the period of the signal, 5m"},
		{"time limit beyond the default period", goodPool + signals(", time_limit: 11m"), at + ".time_limit: is 11m: want 500ms to the period of the signal, 10m"},
		{"no time limit", goodPool + signals(", time_limit: 0s"), at + ".time_limit: is 0s: want 500ms to the period of the signal, 10m"},
		{"time limit as a number", goodPool + signals(", time_limit: 40"), at + ".time_limit: is 40: want a duration such as \"30s\" or \"10m\""},
		{"time limit of no signal", goodPool + "autoscale_signals: [{app: web, time_limit: 40s}]\n", "FILE:4: autoscale_signals[0].time_limit: bounds the evaluation of a signal of the app's own: add the signal's name, or remove it"},
		{"no time to hold", goodPool + signals(", hold_for: 0s"), at + ".hold_for: is 0s: want 100ms to 8760h"},
		{"all at once: unknown keys, values of another type, and wrong values beside them",
			goodPool + "autoscaling: {tick: soon, setpoint: 7}\ndraining: {when: now, draining_time_threshold_seconds: 0}\n",
			"FILE:4: autoscaling.tick: is \"soon\": want a duration such as \"30s\" or \"10m\"\n" +
				"FILE:4: autoscaling.setpoint: is 7: want above 0 and at most 1\n" +
				"FILE:5: draining.when: no such key (allowed: draining_time_threshold_seconds, force_terminate, process_spot_warnings)\n" +
				"FILE:5: draining.draining_time_threshold_seconds: is 0: want at least 1"},
		{"bounds of the ledger", goodPool + "ledger: {max_age: 720h, max_bytes: 8GiB}\n", ""},
		{"bounds of the ledger, too small", goodPool + "ledger: {max_age: 1m, max_bytes: 1MiB}\n",
			"FILE:4: ledger.max_age: is 1m: want 1h to 8760h\nFILE:4: ledger.max_bytes: is 1048576 bytes: want 64MiB to 1024GiB"},
		{"bounds of the ledger without a unit", goodPool + "ledger: {max_bytes: 0}\n", `FILE:4: ledger.max_bytes: is 0: want a size such as "512MiB" or "2GB"`},
		{"what follows from a value that is left out", strings.Replace(goodPool, "min_capacity: 1", "min_capacity: many", 1),
			`FILE:3: scaling_limits.min_capacity: is "many": want a number of at least 0, or "inf"`},
		{"an amount of nothing", goodPool + signals(", max_request: {cpus: 0}"), at + ".max_request.cpus: is 0: want a number above 0"},
		{"a machine without a size", goodPool + "machines: {blue: {cpus: -1}}\n", "FILE:4: machines.blue.cpus: is -1: want a number above 0"},
		{"headroom", goodPool + "headroom: [{name: a, app: web, count: 2, percent: 10, limits: {cpus: 1}, group: blue}, {name: b, resources: {cpus: 0.5}, count: 6}]\n", ""},
		{"headroom above the maximum", goodPool + "headroom: [{name: a, resources: {cpus: 0.5}, count: 7}, {name: b, resources: {cpus: 2}, percent: 5, count: 1}]\n",
			"FILE:4: headroom[0].count: is 7, but the groups hold at most 6 such places within their maxima and max_capacity 3: want fewer or smaller places, or a higher maximum\n" +
				"FILE:4: headroom[1].count: is 1, but the groups hold at most 0 such places within their maxima and max_capacity 3: want fewer or smaller places, or a higher maximum"},
		{"headroom without a size or a number", goodPool + "headroom: [{name: a}, {name: a, app: web, resources: {cpus: 1}, percent: -1, group: red}, {name: c, resources: {cpus: 1}, count: 1, limits: {cpus: 0.5}}]\n",
			"FILE:4: headroom[0].resources: is missing: want the size of a place, such as {cpus: 1, mem: 1024}, or app\n" +
				"FILE:4: headroom[0].count: is missing: want a number of places, or percent\n" +
				"FILE:4: headroom[1].name: \"a\" is a duplicate\n" +
				"FILE:4: headroom[1].resources: conflicts with app: a place has the size of a copy of the app, or this size; keep one\n" +
				"FILE:4: headroom[1].percent: is -1: want 0 to 1000\n" +
				"FILE:4: headroom[1].group: is \"red\": want one of the groups of the pool, [blue]\n" +
				"FILE:4: headroom[2].limits.cpus: is 0.5, less than one place of 1: want at least that"},
		{"headroom without places", goodPool + "autoscaling: {places: false}\nheadroom: [{name: a, app: web, count: 1}]\n",
			"FILE:5: headroom: conflicts with autoscaling.places: false: the scheduler finds the free places; remove one of them"},
		{"windows", goodPool + "windows: [{name: nights, days: mon-fri, from: '22:00', to: '05:00', time_zone: Europe/Berlin, allow: [roll, rotate, scale_in, repair]}]\n", ""},
		{"wrong windows", goodPool + "windows:\n- {name: nights, days: daily, from: '22:00', to: '05:00', time_zone: Europe/Bonn, allow: [roll]}\n- {name: b, days: daily, from: 'x', to: '05:00', time_zone: UTC, allow: [drain]}\n",
			"FILE:5: windows[0].time_zone: no time zone has the name \"Europe/Bonn\": want a name of the IANA database, such as Europe/Berlin\n" +
				"FILE:6: windows[1].allow: has \"drain\": want some of roll, rotate, scale_in, repair\n" +
				"FILE:6: windows[1].from: is \"x\": want a time of the clock with two digits each, such as \"08:00\""},
		{"rotation", goodPool + "rotation: {max_age: 30d, when: [image != ami-2, type in m4.large m4.xlarge], rate: {machines: 4, within: 1h}, health_gate: {wait: 10m, within: 20m, checks: [disk]}, stop_after: 2}\n", ""},
		{"wrong rotation", goodPool + "rotation:\n  max_age: 10m\n  when: [size=3, age>soon]\n  rate: {machines: 4}\n  health_gate: {wait: -1s, checks: ['']}\n  stop_after: 0\n",
			"FILE:5: rotation.max_age: is 10m: want 1h to 8760h\n" +
				"FILE:6: rotation.when[0]: \"size=3\": want age>20d, or one of group, image, market, template, type and zone with =, != or in, such as \"type in m4.large m4.xlarge\"\n" +
				"FILE:6: rotation.when[1]: \"age>soon\": \"soon\": want a duration such as 30d or 12h\n" +
				"FILE:7: rotation.rate.within: is missing: want a duration such as 1h\n" +
				"FILE:8: rotation.health_gate.wait: is -1s: want 0s to 8760h\n" +
				"FILE:8: rotation.health_gate.checks[0]: is \"\": want the name of a condition of a node, such as ReadonlyFilesystem\n" +
				"FILE:9: rotation.stop_after: is 0: want 1 to 100"},
		{"windows that overlap", goodPool + "windows:\n- {name: a, days: daily, from: '22:00', to: '05:00', time_zone: UTC, allow: [roll]}\n- {name: b, days: sun, from: '04:00', to: '06:00', time_zone: UTC, allow: [roll]}\n",
			"FILE:6: windows[1]: is open at the same time as windows[0], \"a\", and both allow roll, for example at Sun 2026-01-04 04:00 UTC: want separate times, or one window"},
		{"a machine with another resource", goodPool + "machines: {blue: {cores: 1}}\n", "FILE:4: machines.blue.cores: no such key (allowed: cpus, disk, gpus, mem)"},
		{"a bound without a signal", entry("max_request: {cpus: 1}"), at + ".max_request: bounds the answer of a signal of the app's own: add the signal's name, or remove it"},
		{"no version", entry("name: rps" + windows), at + ".version: is missing: a signal is pinned to a published version, or is of kind builtin"},
		{"version in both words", goodPool + signals(", branch_or_tag: v1"), at + ".version: conflicts with branch_or_tag: keep one"},
		{"version that climbs", entry("name: rps, version: ../x" + windows), at + `.version: release "default/rps@../x": version "../x": want letters, digits and ._+-, with single slashes between`},
		{"branch that climbs", entry("name: rps, branch_or_tag: a//b" + windows), at + `.branch_or_tag: release "default/rps@a//b": version "a//b": want letters, digits and ._+-, with single slashes between`},
		{"namespace with a slash", entry("name: rps, namespace: a/b, version: v1" + windows), at + `.namespace: release "a/b/rps@v1": namespace "a/b": want up to 64 letters, digits and ._-`},
		{"name with a space", entry("name: r ps, version: v1" + windows), at + `.name: release "default/r ps@v1": name "r ps": want up to 64 letters, digits and ._-`},
		{"address too long", entry("name: " + long + ", namespace: " + long + ", version: v1" + windows), at + ".name: makes a socket address of 132 bytes, at most 107 are possible: shorten namespace, name or app"},
		{"no windows", entry("name: rps, version: v1"), at + ".required_metrics: is missing: a signal needs at least one window"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readPool(t, c.text)
			expectError(t, err, c.want)
		})
	}
}

func TestMetrics(t *testing.T) {
	const at = "FILE:5: autoscale_signals[0].required_metrics[0]"
	for _, c := range []struct{ metric, want string }{
		{"name: m, type: system_metrics, range: 20m, max_age: 1m", ""},
		{"name: m, type: system_metrics, range: 672h, resolution: 5m, max_age: 10m", ""},
		{"name: m, type: system_metrics, range: 672h, resolution: 7m", at + ".resolution: is 7m: want whole seconds that divide a day, such as 5m"},
		{"name: m, type: system_metrics, range: 672h, resolution: 0s", at + ".resolution: is 0s: want whole seconds that divide a day, such as 5m"},
		{"name: m, type: system_metrics, range: 9m, resolution: 5m", at + ".resolution: is 5m: the range has less than two of these slots"},
		{"name: m, type: system_metrics, range: 20m, resolution: 5m, max_age: 4m",
			at + ".max_age: is 4m: want at least the resolution, 5m, because a slot is sent after its end"},
		{"name: m, type: app_metrics, minute_range: 20", ""},
		{"name: m, type: instance_counts, range: 1m, app: web", ""},
		{"type: system_metrics, range: 1m", at + ".name: is missing: want the metric's name"},
		{"name: m, type: counter, range: 1m", at + `.type: is "counter": want one of system_metrics, app_metrics, metadata, instance_counts`},
		{"name: m, type: app_metrics, range: 1m, app: web", at + ".app: is only for type instance_counts: remove it"},
		{"name: m, type: app_metrics", at + ".range: is missing: want a duration such as 20m, or minute_range"},
		{"name: m, type: app_metrics, range: 0s", at + ".range: is 0s: want 1s to 8760h"},
		{"name: m, type: app_metrics, minute_range: 0", at + ".minute_range: is 0: want 1 to 525600"},
		{"name: m, type: app_metrics, minute_range: 5, range: 5m", at + ".minute_range: conflicts with range: keep one"},
		{"name: m, type: app_metrics, minute_range: 5, max_age: -1s", at + ".max_age: is -1s: want 1s to 8760h"},
		{"name: m, type: app_metrics, range: 1m}, {name: m, type: app_metrics, range: 2m", "FILE:5: autoscale_signals[0].required_metrics[1].name: \"m\" is a duplicate: a signal has one window of a metric"},
		{"name: m, type: instance_counts, range: 1m}, {name: m, type: instance_counts, app: web, range: 1m", ""},
	} {
		t.Run(c.metric, func(t *testing.T) {
			_, err := readPool(t, goodPool+fmt.Sprintf("autoscale_signals:\n  - {app: web, name: rps, version: v1, required_metrics: [{%s}]}\n", c.metric))
			expectError(t, err, c.want)
		})
	}
}

func TestProblemsAreInOrderOfLines(t *testing.T) {
	_, err := readPool(t, `draining: {draining_time_threshold_seconds: 0}
autoscale_signals:
  - app: web
    name: rps
    period_minutes: -1
autoscaling:
  margin_down: 3
  setpoint: 7
scaling_limits:
  max_weight_to_remove: -1
  min_capacity: 5
  max_capacity: 4
resource_groups:
  - local: {name: "", max: 1, machine: {cpus: 1, mem: 1}}
`)
	expectError(t, err, `FILE:1: draining.draining_time_threshold_seconds: is 0: want at least 1
FILE:3: autoscale_signals[0].version: is missing: a signal is pinned to a published version, or is of kind builtin
FILE:3: autoscale_signals[0].required_metrics: is missing: a signal needs at least one window
FILE:5: autoscale_signals[0].period_minutes: is -1: want 1 to 525600
FILE:7: autoscaling.margin_down: is 3: want at least 0 and below 1
FILE:8: autoscaling.setpoint: is 7: want above 0 and at most 1
FILE:9: scaling_limits.max_weight_to_add: is missing: want `+weights+`
FILE:10: scaling_limits.max_weight_to_remove: is -1: want at least 0
FILE:11: scaling_limits.min_capacity: is 5, above max_capacity 4 on line 12: want min_capacity <= max_capacity
FILE:14: resource_groups[0].local.name: is missing: `+nameHint)
}
