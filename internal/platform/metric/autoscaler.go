package metric

import "slices"

// Autoscaler returns the metrics of how a pool scales.
func Autoscaler() []Metric {
	return slices.Concat(autoscalerTicks(), autoscalerCapacity(), autoscalerSignals(), autoscalerWork(), poolCost(), remoteWrite())
}

func remoteWrite() []Metric {
	return []Metric{
		{"weir_remote_write_queued_ticks", Gauge, "ticks", nil, "Ticks that wait for the server of telemetry.remote_write. Absent, as the others: it is not configured."},
		{"weir_remote_write_sent_total", Counter, "ticks", nil, "Ticks that the server has accepted."},
		{"weir_remote_write_dropped_total", Counter, "ticks", list("reason"), "Ticks that were dropped: full (the queue was full) or rejected (by the server)."},
		{"weir_remote_write_failing_seconds", Gauge, seconds, nil, "Time since the first failed attempt without a success after it; 0: the last attempt succeeded."},
	}
}

func poolCost() []Metric {
	return []Metric{
		{"weir_pool_cost_per_hour", Gauge, "currency", list("group", "market", "cause"), "Price of an hour of the machines, by group, market and cause, as of the last tick. The sum is the cost of the pool. Absent: no price file."},
		{"weir_pool_machines_without_price", Gauge, "machines", list("group", "market"), "Machines whose market has no price, which the cost lacks. Absent: each market has one."},
	}
}

func autoscalerTicks() []Metric {
	return []Metric{
		{"weir_autoscaler_lease_held", Gauge, "", nil, "1: this process holds the pool's lease; 0: it is a standby."},
		{"weir_autoscaler_lease_left_seconds", Gauge, seconds, nil, "Time until the held lease expires without renewal."},
		{"weir_autoscaler_lease_epoch", Gauge, "", nil, "Number of the takeover by which this process holds the lease."},
		{"weir_autoscaler_leases_lost_total", Counter, "leases", nil, "Leases that this process lost, except at its own end."},
		{"weir_autoscaler_tick_age_seconds", Gauge, seconds, nil, "Time since the last tick of this term ended."},
		{"weir_autoscaler_tick_interval_seconds", Gauge, seconds, nil, "Interval of the ticks, from the configuration."},
		{"weir_autoscaler_tick_seconds", Gauge, seconds, nil, "Duration of the last tick."},
		{"weir_autoscaler_tick_seconds_total", Counter, seconds, nil, "Total duration of the ticks."},
		{"weir_autoscaler_ticks_total", Counter, "ticks", list("result"), "Ticks by result: decided, paused, failed (ended before a decision), or lost (the record is not in the ledger)."},
		{"weir_autoscaler_problems", Gauge, "", nil, "Problems in the record of the last tick."},
		{"weir_autoscaler_paused", Gauge, "", nil, "1: an operator paused the pool."},
		{"weir_autoscaler_dry_run", Gauge, "", nil, "1: the process decides, and sends no request to the provider."},
	}
}

func autoscalerCapacity() []Metric {
	return []Metric{
		{"weir_autoscaler_target_capacity", Gauge, weight, nil, "Target of the pool after all rules, not rounded."},
		{"weir_autoscaler_unlimited_capacity", Gauge, weight, nil, "Target of the pool before the rule of limits."},
		{"weir_autoscaler_wanted_capacity", Gauge, weight, nil, "Target that the pool reached or may still reach, with an operator's offset."},
		{"weir_autoscaler_groups_capacity", Gauge, weight, nil, "Sum of the groups' targets, as read from the provider."},
		{"weir_autoscaler_fulfilled_capacity", Gauge, weight, nil, "Weight of the existing instances."},
		{"weir_autoscaler_joined_capacity", Gauge, weight, nil, "Weight of the instances whose node has joined."},
		{"weir_autoscaler_min_capacity", Gauge, weight, nil, "Lower limit of the target."},
		{"weir_autoscaler_max_capacity", Gauge, weight, nil, "Upper limit of the target; +Inf: no limit."},
		{"weir_autoscaler_at_limit", Gauge, "", list("limit"), "1: the target is at that limit (min or max), and the rules before the limits request more than it allows."},
		{"weir_autoscaler_scale_in_blocked", Gauge, "", nil, "1: no node may be removed in this tick, except replaced ones."},
		{"weir_autoscaler_apps_need_unknown", Gauge, "apps", nil, "Apps whose need is unknown, which block scale-in."},
		{"weir_autoscaler_resources", Gauge, "cores, devices", list("resource"), "Processors (cpus) and gpus of the joined nodes."},
		{"weir_autoscaler_resources_bytes", Gauge, bytes, list("resource"), "Memory (mem) and disk of the joined nodes."},
		{"weir_autoscaler_resources_total", Gauge, perKind, list("resource"), Deprecated + "weir_autoscaler_resources and weir_autoscaler_resources_bytes. Resources of the joined nodes."},
		{"weir_autoscaler_resources_allocated", Gauge, perKind, list("resource"), "Allocated resources of the joined nodes. Absent while a node does not report. " + bytesBeside},
		{"weir_autoscaler_resources_allocated_bytes", Gauge, bytes, list("resource"), "Allocated memory (mem) and disk of the joined nodes. Absent while a node does not report."},
	}
}

func autoscalerSignals() []Metric {
	return []Metric{
		{"weir_autoscaler_request", Gauge, perKind, list("app", "resource"), "Request that counts for an app. Absent: no request for that resource. " + bytesBeside},
		{"weir_autoscaler_request_bytes", Gauge, bytes, list("app", "resource"), "Request for memory (mem) and disk that counts for an app. Absent: no request for that resource."},
		{"weir_autoscaler_pool_request", Gauge, perKind, list("resource"), "Combined request of all apps. " + bytesBeside},
		{"weir_autoscaler_unmet_request", Gauge, "cores, devices", list("resource"), "Part of the pool's request for processors (cpus) and gpus that the joined nodes do not have. Absent while a node does not report."},
		{"weir_autoscaler_unmet_request_bytes", Gauge, bytes, list("resource"), "Part of the pool's request for memory (mem) and disk that the joined nodes do not have. Absent while a node does not report."},
		{"weir_autoscaler_pool_request_bytes", Gauge, bytes, list("resource"), "Combined request of all apps for memory (mem) and disk."},
		{"weir_autoscaler_signal_verdict", Gauge, "signals", list("app", "verdict"), "1 for the current verdict of the app's own signal: value, no_opinion, stale, failed or not_requested. The app (default) is the default signal, and APP~NAME an advisor."},
		{"weir_autoscaler_signal_latency_seconds", Gauge, seconds, list("app"), "Duration of the last evaluation of the app's signal."},
		{"weir_autoscaler_signal_age_seconds", Gauge, seconds, list("app"), "Age of the response that counts, at the last tick."},
		{"weir_autoscaler_fallback", Gauge, "apps", list("app"), "1: the app's own signal has failed or is stale, and another source replaces it."},
		{"weir_autoscaler_signals_stale", Gauge, "signals", nil, "Signals whose windows or responses are stale."},
		{"weir_autoscaler_evaluations_in_progress", Gauge, "", nil, "Evaluations that the last tick did not wait for."},
	}
}

func autoscalerWork() []Metric {
	return []Metric{
		{"weir_autoscaler_provider_calls_total", Counter, "calls", list("call", "result"), "Calls to the provider by result: ok or failed."},
		{"weir_autoscaler_provider_seconds_total", Counter, seconds, list("call"), "Total duration of the calls to the provider."},
		{"weir_autoscaler_group_target", Gauge, weight, list("group"), "Target of a group, as read from the provider."},
		{"weir_autoscaler_group_fulfilled", Gauge, weight, list("group"), "Weight of a group's existing instances."},
		{"weir_autoscaler_group_unknown", Gauge, "groups", list("group"), "1: the group could not be read, so its last known size counts and nothing changes it."},
		{"weir_autoscaler_part_unknown", Gauge, "", list("part"), "1: a list of groups, or a fact beside the groups, could not be read. Absent: all were read."},
		{"weir_autoscaler_group_backoff", Gauge, "groups", list("group"), "1: the group is in backoff, because it was short, refused a change, or gave no result three times."},
		{"weir_autoscaler_boot_seconds", Gauge, seconds, list("group", "market", "percentile"), "Time from the launch of a machine to the join of its node, by group and market (all: of the group): percentiles 50 and 95 of the last 50 machines of a market."},
		{"weir_autoscaler_failed_boots", Gauge, nodes, list("group"), "Machines of the group in a row that never joined. From failed_boots of the configuration on, the group grows by one machine at a time."},
		{"weir_autoscaler_group_price", Gauge, "currency", list("group"), "Price of an hour of the group's machines for a weight of 1: the last known one if the prices lack it. Absent: it was never known."},
		{"weir_autoscaler_group_price_missing", Gauge, "groups", list("group"), "1: the prices lack the market of the group. Absent: no price file."},
		{"weir_autoscaler_group_interruptions", Gauge, "", list("group"), "Expected interruptions of a spot machine of the group in an hour, learned with a half-life of 7 days. Absent: it has no spot machines, or no price file."},
		{"weir_autoscaler_headroom_places", Gauge, "places", list("headroom", "state"), "Places of a headroom of the pool file: wanted, free on nodes that exist, ordered, or short. Absent: the scheduler does not count them."},
		{"weir_autoscaler_rotation_machines", Gauge, nodes, list("state"), "Machines of the rotations: left, replaced, or on trial as new machines. Absent: nothing is to be replaced."},
		{"weir_autoscaler_rotation_stopped", Gauge, "", nil, "1: a rotation halted or was refused, and waits for an operator."},
		{"weir_autoscaler_nodes", Gauge, nodes, list("state"), "Instances of the pool by the state of their node."},
		{"weir_autoscaler_drains", Gauge, nodes, list("state"), "Drains in progress, by state."},
		{"weir_autoscaler_disruption_budget_left", Gauge, nodes, nil, "Nodes that may still be taken out of service. Absent: the pool has no disruption budget."},
	}
}
