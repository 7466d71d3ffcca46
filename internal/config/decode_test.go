package config

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

const topKeys = "autoscale_signal, autoscale_signals, autoscaling, autoscaling_signal, draining, headroom, health, ledger, machines, node_migration, resource_groups, rotation, scaling_limits, windows"

const nothingThere = `FILE: scaling_limits.min_capacity: is missing: want ` + weights + `
FILE: scaling_limits.max_capacity: is missing: want ` + weights + `
FILE: scaling_limits.max_weight_to_add: is missing: want ` + weights + `
FILE: scaling_limits.max_weight_to_remove: is missing: want ` + weights + `
FILE: resource_groups: is missing: a pool without groups has no machines`

func TestWrongForm(t *testing.T) {
	long := strings.Repeat("k", 1000)
	for _, c := range []struct{ name, text, want string }{
		{"complete", goodPool, ""},
		{"header before and end after", "# a comment\n---\n" + goodPool + "...\n# another\n", ""},
		{"byte order mark", "\ufeff" + goodPool, ""},
		{"quoted key", goodPool + "\"autoscaling\": {combine: max}\n", ""},
		{"section without content", goodPool + "autoscaling:\ndraining:\nautoscale_signals:\n", ""},
		{"empty file", "", nothingThere},
		{"comment only", "# nothing\n", nothingThere},
		{"two documents", goodPool + "---\n" + goodPool, "FILE:4: a second document begins: want one in a file"},
		{"document after an empty one", "---\n---\n" + goodPool, "FILE:2: a second document begins: want one in a file"},
		{"document after an end", goodPool + "...\n" + goodPool, "FILE:5: a second document begins: want one in a file"},
		{"bracket left open", goodPool + "autoscaling: {tick: 5s\n", "FILE:4: could not find flow mapping end token '}'"},
		{"key inside a value", goodPool + "autoscaling: tick: 5s\n", "FILE:4: mapping value is not allowed in this context"},
		{"tab", goodPool + "autoscaling:\n\ttick: 5s\n", "FILE:5: found character '\t' that cannot start any token"},
		{"list at the top", "- a\n", "FILE:1: is a list: want a map of resource_groups, scaling_limits, autoscaling, autoscale_signals, autoscale_signal, autoscaling_signal, draining, health, machines, headroom, windows, rotation, node_migration, ledger"},
		{"text at the top", "hello\n", `FILE:1: is "hello": want a map of resource_groups, scaling_limits, autoscaling, autoscale_signals, autoscale_signal, autoscaling_signal, draining, health, machines, headroom, windows, rotation, node_migration, ledger`},
		{"not UTF-8", goodPool + "# \xff\n", "FILE: is not text in UTF-8: save it as UTF-8"},
		{"too long", "#" + strings.Repeat("x", maxFile), "FILE: is longer than 1048576 bytes: want a shorter file"},
		{"just not too long", goodPool + "#" + strings.Repeat("x", maxFile-len(goodPool)-1), ""},
		{"too many keys", strings.Repeat("k: 1\n", 50_000), "FILE:21846: has more than 65536 tokens: split or shorten the file"},
		{"too many brackets", "\nautoscaling: " + strings.Repeat("[", 10_000), "FILE:2: nests deeper than 64 levels"},
		{"too many dashes", strings.Repeat("- ", 10_000), "FILE:1: nests deeper than 64 levels"},
		{"deep by indentation", goodPool + signals(", parameters: "+strings.Repeat("{a: ", 60)+"1"+strings.Repeat("}", 60)), ""},

		{"unknown key", goodPool + "scaling_limts: {}\n", "FILE:4: scaling_limts: no such key; did you mean scaling_limits? (allowed: " + topKeys + ")"},
		{"unknown key, nothing near", goodPool + "colour: red\n", "FILE:4: colour: no such key (allowed: " + topKeys + ")"},
		{"unknown nested key", goodPool + "autoscaling:\n  setpont: 0.7\n", "FILE:5: autoscaling.setpont: no such key; did you mean setpoint? " +
			"(allowed: budgets, combine, configuration_grace, cooldown, default_signal_role, distribution, drift, excluded_resources, failed_boots, ignorance_max, instance_loss_threshold, interrupted_work, killable_nodes_prioritizing_v2, lease, margin_down, margin_up, max_share, orphan_instance_uptime_threshold_seconds, places, prevent_scale_down_after_capacity_loss, setpoint, target_capacity_margin, tick)"},
		{"unknown key in a list", goodPool + "autoscale_signals:\n  - app: web\n    nam: rps\n", "FILE:6: autoscale_signals[0].nam: no such key; did you mean name? " +
			"(allowed: app, branch_or_tag, distinct_app, environment, hold_for, internal, kind, limits, max_request, name, namespace, parameters, period, period_minutes, raise, required_metrics, shadow, time_limit, version)"},
		{"name of a field that no file sets", goodPool + "-: default\ndocument: 1\n", "FILE:4: -: no such key (allowed: " + topKeys + ")\nFILE:5: document: no such key (allowed: " + topKeys + ")"},
		{"unknown key of a thousand letters", goodPool + long + ": 1\n", "FILE:4: " + long[:200] + "...: no such key (allowed: " + topKeys + ")"},
		{"list for a key", goodPool + "? [a]\n: 1\n", "FILE:5: found an invalid key for this map"},
		{"key with a question mark", goodPool + "? autoscaling\n: {tick: 5s}\n", "FILE:4: ?: no such key (allowed: " + topKeys + ")"},

		{"duplicate key", goodPool + "draining: {}\ndraining: {}\n", "FILE:5: draining: is a duplicate, first on line 4: remove one"},
		{"duplicate nested key", goodPool + "draining:\n  force_terminate: true\n  \"force_terminate\": false\n", "FILE:6: draining.force_terminate: is a duplicate, first on line 5: remove one"},
		{"duplicate parameter", goodPool + signals(", parameters: [{b: [{a: 1, a: 2}]}]"), "FILE:5: autoscale_signals[0].parameters[0].b[0].a: is a duplicate, first on line 5: remove one"},
		{"parameters with a dot", goodPool + signals(", parameters: {a: {b: 1}, a.b: 2}"), ""},

		{"anchor and alias", goodPool + "autoscaling: {setpoint: &x 0.5, margin_up: *x}\n",
			"FILE:4: autoscaling.setpoint: anchors, aliases and merge keys are not supported: write the value out\n" +
				"FILE:4: autoscaling.margin_up: anchors, aliases and merge keys are not supported: write the value out"},
		{"alias for a section", goodPool + "draining: &d {force_terminate: true}\nautoscaling: *d\n",
			"FILE:4: draining: anchors, aliases and merge keys are not supported: write the value out\n" +
				"FILE:5: autoscaling: anchors, aliases and merge keys are not supported: write the value out"},
		{"merge key", goodPool + "autoscaling:\n  <<: {nonsense: true}\n", "FILE:5: autoscaling.<<: anchors, aliases and merge keys are not supported: write the value out"},
		{"merge key in parameters", goodPool + signals(", parameters: {<<: {a: 1}}"), "FILE:5: autoscale_signals[0].parameters.<<: anchors, aliases and merge keys are not supported: write the value out"},
		{"alias to itself", goodPool + signals(", parameters: &p {a: *p}"), "FILE:5: autoscale_signals[0].parameters: anchors, aliases and merge keys are not supported: write the value out"},
		{"tag", goodPool + "draining: {force_terminate: !!bool true}\n", "FILE:4: draining.force_terminate: tags are not supported: write the value without one"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readPool(t, c.text)
			expectError(t, err, c.want)
		})
	}
}

func TestWrongType(t *testing.T) {
	const sections = "a map of default_signal_role, tick, lease, setpoint, target_capacity_margin, margin_up, margin_down, excluded_resources, combine, cooldown, budgets, ignorance_max, drift, prevent_scale_down_after_capacity_loss, instance_loss_threshold, orphan_instance_uptime_threshold_seconds, failed_boots, killable_nodes_prioritizing_v2, places, distribution, max_share, interrupted_work, configuration_grace"
	for _, c := range []struct{ name, text, want string }{
		{"text for a number", "autoscaling: {setpoint: \"0.5\"}\n", `FILE:4: autoscaling.setpoint: is "0.5": want a number`},
		{"truth for a number", "autoscaling: {setpoint: true}\n", "FILE:4: autoscaling.setpoint: is true: want a number"},
		{"nothing for a number", "autoscaling: {setpoint: }\n", "FILE:4: autoscaling.setpoint: is empty: want a number"},
		{"list for a number", "autoscaling: {setpoint: [0.5]}\n", "FILE:4: autoscaling.setpoint: is a list: want a number"},
		{"no number", "autoscaling: {setpoint: .nan}\n", "FILE:4: autoscaling.setpoint: is .nan: want a number"},
		{"infinity", "autoscaling: {margin_up: -.inf}\n", "FILE:4: autoscaling.margin_up: is -.inf: want a number"},
		{"number too large", "autoscaling: {margin_up: 1.5e400}\n", `FILE:4: autoscaling.margin_up: is "1.5e400": want a number`},
		{"text for a whole number", "draining: {draining_time_threshold_seconds: \"5\"}\n", `FILE:4: draining.draining_time_threshold_seconds: is "5": want a whole number`},
		{"fraction for a whole number", "draining: {draining_time_threshold_seconds: 5.5}\n", "FILE:4: draining.draining_time_threshold_seconds: is 5.5: want a whole number"},
		{"whole number too large", "draining: {draining_time_threshold_seconds: 18446744073709551615}\n", "FILE:4: draining.draining_time_threshold_seconds: is 18446744073709551615: want a whole number"},
		{"text for truth", "draining: {force_terminate: yes}\n", `FILE:4: draining.force_terminate: is "yes": want true or false`},
		{"number for a text", "autoscaling: {combine: 1.10}\n", `FILE:4: autoscaling.combine: is 1.10: want a text: write "1.10"`},
		{"map for a text", "autoscaling: {combine: {a: 1}}\n", "FILE:4: autoscaling.combine: is a map: want a text"},
		{"number for a list", "autoscale_signals: 5\n", "FILE:4: autoscale_signals: is 5: want a list"},
		{"map for a list", "autoscale_signals: {app: web}\n", "FILE:4: autoscale_signals: is a map: want a list"},
		{"number for a map", "autoscaling: 7\n", "FILE:4: autoscaling: is 7: want " + sections},
		{"list for a map", "autoscaling:\n  - tick: 5s\n", "FILE:5: autoscaling: is a list: want " + sections},
		{"empty entry", "autoscaling: {excluded_resources: [null]}\n", "FILE:4: autoscaling.excluded_resources[0]: is empty: want a text"},
		{"number for a duration", "autoscaling: {tick: 10}\n", `FILE:4: autoscaling.tick: is 10: want a duration such as "30s" or "10m"`},
		{"duration without a unit", "autoscaling: {tick: \"10\"}\n", `FILE:4: autoscaling.tick: is "10": want a duration such as "30s" or "10m"`},
		{"duration in words", "autoscaling: {tick: ten minutes}\n", `FILE:4: autoscaling.tick: is "ten minutes": want a duration such as "30s" or "10m"`},
		{"long text, cut", "autoscaling: {tick: \"" + strings.Repeat("x", 100) + "\"}\n", `FILE:4: autoscaling.tick: is "` + strings.Repeat("x", 60) + `...": want a duration such as "30s" or "10m"`},
		{"text with control characters", "autoscaling: {tick: \"\\e[31m\\a\"}\n", "FILE:4: autoscaling.tick: is \"\ufffd[31m\ufffd\": want a duration such as \"30s\" or \"10m\""},
		{"text over lines", "autoscaling:\n  tick: |\n    a\n    b\n", `FILE:5: autoscaling.tick: is a literal: want a duration such as "30s" or "10m"`},
		{"number for parameters", signals(", parameters: 5"), "FILE:5: autoscale_signals[0].parameters: is 5: want a map, or a list of maps"},
		{"numbers for parameters", signals(", parameters: [5]"), "FILE:5: autoscale_signals[0].parameters: is a list: want a map, or a list of maps"},
		{"octal number", "draining: {draining_time_threshold_seconds: 010}\n", "FILE:4: draining.draining_time_threshold_seconds: is 010, which YAML reads as 8: write 8, or 10 without the zero"},
		{"octal number for a fraction", "autoscaling: {setpoint: 00}\n", "FILE:4: autoscaling.setpoint: is 00, which YAML reads as 0: write 0"},
		{"binary number", "autoscaling: {margin_up: 0b11}\n", "FILE:4: autoscaling.margin_up: is 0b11: want a decimal number: write 3"},
		{"hexadecimal number", "autoscaling: {margin_up: -0x1F}\n", "FILE:4: autoscaling.margin_up: is -0x1F: want a decimal number: write -31"},
		{"number with a line between digits", "draining: {draining_time_threshold_seconds: 1_000}\n", "FILE:4: draining.draining_time_threshold_seconds: is 1_000: want a decimal number: write 1000"},
		{"fraction with a line between digits", "autoscaling: {margin_up: 1_0.5}\n", "FILE:4: autoscaling.margin_up: is 1_0.5: want a decimal number: write 10.5"},
		{"octal limit", "draining: {}\nhealth: {detection: {detection_modes: [{type: AGENT_HEARTBEAT}]}, safety: {max_in_progress: 010}}\n", "FILE:5: health.safety.max_in_progress: is 010, which YAML reads as 8: write 8, or 10 without the zero"},
		{"octal number for a text", "autoscaling: {combine: 010}\n", `FILE:4: autoscaling.combine: is 010: want a text: write "010"`},
		{"octal number in parameters", signals(", parameters: {a: {b: [1, 010]}}"), "FILE:5: autoscale_signals[0].parameters: is 010, which YAML reads as 8: write 8, or 10 without the zero"},
		{"number with a sign", "draining: {draining_time_threshold_seconds: +2}\n", ""},
		{"parameters that JSON has not", signals(", parameters: {a: .nan}"), "FILE:5: autoscale_signals[0].parameters: cannot be sent to a signal as JSON: json: unsupported value: NaN"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readPool(t, goodPool+c.text)
			expectError(t, err, c.want)
		})
	}
}

func TestMaxTasksToKill(t *testing.T) {
	const rule = `: want a whole number of at least 0, or "inf"`
	for _, c := range []struct {
		text string
		want TaskLimit
		err  string
	}{
		{"0", TaskLimit{}, ""},
		{"100", TaskLimit{N: 100}, ""},
		{"inf", TaskLimit{Unlimited: true}, ""},
		{`"inf"`, TaskLimit{Unlimited: true}, ""},
		{"-1", TaskLimit{}, "FILE:3: scaling_limits.max_tasks_to_kill: is -1" + rule},
		{"2.5", TaskLimit{}, "FILE:3: scaling_limits.max_tasks_to_kill: is 2.5" + rule},
		{`"5"`, TaskLimit{}, `FILE:3: scaling_limits.max_tasks_to_kill: is "5"` + rule},
		{".inf", TaskLimit{}, "FILE:3: scaling_limits.max_tasks_to_kill: is .inf" + rule},
		{"99999999999", TaskLimit{}, "FILE:3: scaling_limits.max_tasks_to_kill: is 99999999999" + rule},
		{"[1]", TaskLimit{}, "FILE:3: scaling_limits.max_tasks_to_kill: is a list" + rule},
		{"", TaskLimit{}, "FILE:3: scaling_limits.max_tasks_to_kill: is empty" + rule},
	} {
		t.Run(c.text, func(t *testing.T) {
			p, err := readPool(t, strings.Replace(goodPool, "max_weight_to_remove: 1", "max_weight_to_remove: 1, max_tasks_to_kill: "+c.text, 1))
			expectError(t, err, c.err)
			if p.Limits.MaxTasks != c.want {
				t.Errorf("max_tasks_to_kill %s = %+v, want %+v", c.text, p.Limits.MaxTasks, c.want)
			}
		})
	}
}

// processorTime returns the processor time of this process, so that other processes do not affect the result.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// The parser's time grows with the square of its input. The checks before it must keep the input short.
func TestHostileFilesAreReadFast(t *testing.T) {
	for _, unit := range []string{"[", "{a: ", "- ", "? ", "a:\n ", "<<: ", "&a ", "!!x ", "\"", "a: |\n", "- [\n", "k: {\n"} {
		began := processorTime(t)
		_, err := readPool(t, strings.Repeat(unit, 20_000/len(unit)))
		if took := processorTime(t) - began; err == nil || took > 10*time.Second {
			t.Errorf("reading %q again and again took %v, error %v: want an error soon", unit, took, err)
		}
	}
}
