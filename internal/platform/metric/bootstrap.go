package metric

// Bootstrap returns the metrics of a bootstrap: its processes, releases and files.
func Bootstrap() []Metric {
	return []Metric{
		{"weir_bootstrap_autoscaler_running", Gauge, "", nil, "1: the autoscaler's process runs."},
		{"weir_bootstrap_autoscaler_overdue", Gauge, "", nil, "1: the autoscaler's next sign of life is late."},
		{"weir_bootstrap_autoscaler_restarts_total", Counter, "restarts", nil, "Restarts of the autoscaler's process."},
		{"weir_bootstrap_signal_running", Gauge, "processes", list("app"), "1: the process of the app's signal runs. The app (default) is the default signal."},
		{"weir_bootstrap_signal_restarts_total", Counter, "restarts", list("app"), "Restarts of the process of the app's signal, since its version started."},
		{"weir_bootstrap_signal_yanked", Gauge, "processes", list("app"), "1: the running release of the app's signal is yanked."},
		{"weir_bootstrap_release_fetches_total", Counter, "fetches", list("result"), "Fetches of releases by result: ok, rejected, denied, unavailable, no_space or failed."},
		{"weir_bootstrap_releases_rejected", Gauge, "releases", nil, "Pinned releases whose last fetch was rejected."},
		{"weir_bootstrap_configuration_rejected", Gauge, "", nil, "1: the files are rejected, and the previous configuration applies."},
	}
}
