package metric

// Auth returns the metrics of "weir auth".
func Auth() []Metric {
	return []Metric{
		{"weir_auth_accepted_total", Counter, "connections", nil, "Accepted connections of agents."},
		{"weir_auth_refused_total", Counter, "connections", list("reason"), "Refused connections, by reason; each reason has a series from the start."},
		{"weir_auth_waiting", Gauge, "requests", nil, "Requests of servers that wait."},
	}
}
