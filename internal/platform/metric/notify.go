package metric

// Notify returns the metrics of "weir notify".
func Notify() []Metric {
	return []Metric{
		{"weir_notify_queued_events", Gauge, "events", list("target"), "Events that wait for the target, before its filter."},
		{"weir_notify_sent_total", Counter, "events", list("target"), "Events that the target has accepted."},
		{"weir_notify_failed_attempts_total", Counter, "attempts", list("target"), "Attempts that failed; each is repeated."},
		{"weir_notify_dropped_total", Counter, "events", list("target"), "Events that were dropped: the stream was full, or they were too old."},
		{"weir_notify_failing_seconds", Gauge, seconds, list("target"), "Time since the first failed attempt without a success after it; 0: the last attempt succeeded."},
	}
}
