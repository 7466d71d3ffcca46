package metric

// Bus returns the metrics of the connection to NATS, which each daemon has.
func Bus() []Metric {
	return []Metric{
		{"weir_bus_certificate_expiry_timestamp_seconds", Gauge, seconds, nil, "Time when the first certificate in the chain of the connected NATS server expires, since 1970. Absent: the connection has no TLS, or is down."},
	}
}
