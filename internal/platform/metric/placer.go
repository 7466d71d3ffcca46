package metric

// Placer returns the metrics of a placer.
func Placer() []Metric {
	return []Metric{
		{"weir_placer_placing", Gauge, "", list("pool"), "1: this placer places; 0: it is a standby."},
		{"weir_placer_lease_epoch", Gauge, "", list("pool"), "Epoch of this placer's last lease; 0: it had none yet."},
		{"weir_placer_lease_left_seconds", Gauge, seconds, list("pool"), "Time until the lease expires without renewal; 0: not held."},
		{"weir_placer_nodes", Gauge, nodes, list("pool"), "Nodes of the pool that report."},
		{"weir_placer_starting_instances", Gauge, "instances", list("pool"), "App instances that a node is to run, and that no heartbeat lists yet."},
		{"weir_placer_waiting_instances", Gauge, "instances", list("pool"), "App instances for which no node has room."},
		{"weir_placer_stops_refused_total", Counter, "stops", list("pool"), "Stops that the placer rejected, because the instance is needed."},
		{"weir_placer_foreign_instances_total", Counter, "instances", list("pool"), "App instances that a node listed and the placer did not put there."},
		{"weir_placer_messages_dropped_total", Counter, "messages", list("pool"), "Messages that the placer could not read."},
	}
}
