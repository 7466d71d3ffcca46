package metric

// Health returns the metrics of node health, in the process of the autoscaler.
func Health() []Metric {
	return []Metric{
		{"weir_health_nodes", Gauge, nodes, list("state"), "Nodes by state."},
		{"weir_health_nodes_unknown_ratio", Gauge, "ratio", nil, "Fraction of the nodes without a verdict."},
		{"weir_health_findings_total", Counter, "", list("event"), "Findings by event."},
		{"weir_health_repairs_total", Counter, "repairs", list("action", "result"), "Repair actions by result: begun, succeeded, failed, or ended otherwise."},
		{"weir_health_refusals_total", Counter, "repairs", list("gate"), "Refused repairs by gate."},
		{"weir_health_breaker_open", Gauge, "", nil, "1 if the breaker is open: too many nodes are unhealthy, and no node is repaired."},
		{"weir_health_zones_frozen", Gauge, "zones", nil, "Zones with too many unhealthy nodes."},
		{"weir_health_alarms", Gauge, "alarms", list("about"), "Active alarms by kind."},
		{"weir_health_rounds_total", Counter, "rounds", list("round"), "Observation rounds that ended."},
		{"weir_health_round_seconds_total", Counter, seconds, list("round"), "Total duration of the rounds."},
		{"weir_health_round_last_seconds", Gauge, seconds, list("round"), "Duration of the last round."},
		{"weir_health_round_lag_seconds", Gauge, seconds, list("round"), "Delay of the start of the last round."},
		{"weir_health_rounds_missed_total", Counter, "rounds", list("round"), "Rounds skipped because an earlier round took too long."},
		{"weir_health_round_errors_total", Counter, "rounds", list("round"), "Failed rounds."},
		{"weir_health_save_errors_total", Counter, "saves", nil, "Failed saves of the state."},
		{"weir_health_orders_held", Gauge, "orders", nil, "Orders that wait until the state is durable."},
		{"weir_health_lost_total", Counter, "", list("what"), "Items dropped because a queue was full, by kind."},
	}
}
