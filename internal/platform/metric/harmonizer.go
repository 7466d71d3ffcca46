package metric

// Number describes one of the harmonizer's totals, by pool and by label.
type Number struct{ Name, Unit, Help string }

// HarmonizerNumbers returns the totals, most with the names that the classic health manager used.
func HarmonizerNumbers() []Number {
	const instances, apps, mb = "instances", "apps", "MB"
	return []Number{
		{"apps", apps, "Apps with a row"},
		{"started_apps", apps, "Apps that should run"},
		{"instances", instances, "Instances of apps with a row"},
		{"started_instances", instances, "Instances that should run"},
		{"running_instances", instances, "Desired instances that run"},
		{"missing_instances", instances, "Desired instances without a copy"},
		{"crashed_instances", instances, "Desired instances that crashed"},
		{"flapping_instances", instances, "Desired instances whose restart is delayed after repeated crashes"},
		{"extra_instances", instances, "Copies that should not run"},
		{"rowless_instances", instances, "Copies of apps that have no row and were not deleted; included in the extra instances"},
		{"crashes", "crashes", "Recent crashes"},
		{"memory_megabytes", mb, Deprecated + "the metric in bytes. Memory of the instances of apps with a row"},
		{"started_memory_megabytes", mb, Deprecated + "the metric in bytes. Memory of the instances that should run"},
		{"memory_bytes", bytes, "Memory of the instances of apps with a row"},
		{"started_memory_bytes", bytes, "Memory of the instances that should run"},
		{"halted_updates", apps, "Apps whose update was halted: the new version crashed or was not ready in time"},
	}
}

// Harmonizer returns the metrics of a harmonizer.
func Harmonizer() []Metric {
	table := []Metric{
		{"weir_harmonizer_complete", Gauge, "", nil, "1: both states are complete, so that nudges may go out."},
		{"weir_harmonizer_leading", Gauge, "", nil, "1: this harmonizer acts; 0: it is a standby, or in shadow mode."},
		{"weir_harmonizer_lease_epoch", Gauge, "", nil, "Takeovers of the lease so far."},
		{"weir_harmonizer_lease_left_seconds", Gauge, seconds, nil, "Time until the lease expires without renewal; 0: not held."},
		{"weir_harmonizer_limit_held", Gauge, "", nil, "1: the disruption limit holds nudges, because too many instances or rows were lost at once."},
		{"weir_harmonizer_no_leader_seconds", Gauge, seconds, nil, "How long this harmonizer has seen no leader; 0: a leader exists."},
		{"weir_harmonizer_unwritten_seconds", Gauge, seconds, nil, "How long sent nudges could not be recorded; 0: they can."},
		{"weir_harmonizer_unanswered_requests", Gauge, "apps", nil, "Apps whose nudges no scheduler confirmed within their keep-alive."},
		{"weir_harmonizer_unanswered_seconds", Gauge, seconds, nil, "How long the oldest of these requests waits; 0: there is none."},
		{"weir_harmonizer_nodes", Gauge, nodes, nil, "Nodes that send heartbeats."},
		{"weir_harmonizer_queue_length", Gauge, "", list("of"), "Length of each queue: starts and stops, nudges to send, memories to save."},
		{"weir_harmonizer_events_total", Counter, "events", list("event"), "Events, by name."},
		{"weir_harmonizer_findings_total", Counter, "", list("kind", "why"), "Findings and decisions, by kind and reason."},
		{"weir_harmonizer_step_seconds_max", Gauge, seconds, nil, "Longest time that the state machine took for one event."},
		{"weir_harmonizer_step_seconds", Histogram, seconds, nil, "Time that the state machine took for one event."},
		{"weir_harmonizer_total_users", Gauge, "users", nil, "Users, as reported by the source of the expected state."},
		{"weir_harmonizer_bulk_update_loop_duration_seconds", Gauge, seconds, nil, "Duration of the last complete read of a polled source."},
		{"weir_harmonizer_shadow_acts_total", Counter, "", list("outcome"), "In shadow mode: starts and stops that match, and those of one harmonizer only."},
	}
	for _, n := range HarmonizerNumbers() {
		table = append(table,
			Metric{HarmonizerPrefix + n.Name, Gauge, n.Unit, list("pool"), n.Help + ", by pool."},
			Metric{HarmonizerPrefix + "label_" + n.Name, Gauge, n.Unit, list("label", "value"), n.Help + ", by the value of a label of the app."})
	}
	return table
}
