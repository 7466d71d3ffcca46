package metric

// Units of values. The weight is that of the groups' instances.
const (
	seconds = "seconds"
	weight  = "weight"
	nodes   = "nodes"
	bytes   = "bytes"
	perKind = "cores, MB" // of cpus and gpus; of mem and disk
)

// Deprecated begins the help of a metric that the next release no longer has; its successor follows.
const Deprecated = "Deprecated, use "

// bytesBeside is the help of a metric with sizes in MB, which the next release no longer has.
const bytesBeside = "Sizes in MB are deprecated: use the metric in bytes."

// Prefixes of the names of each part.
const (
	AutoscalerPrefix = "weir_autoscaler_"
	HealthPrefix     = "weir_health_"
	BootstrapPrefix  = "weir_bootstrap_"
	HarmonizerPrefix = "weir_harmonizer_"
	PlacerPrefix     = "weir_placer_"
	AuthPrefix       = "weir_auth_"
	NotifyPrefix     = "weir_notify_"
	BusPrefix        = "weir_bus_"
)

func list(labels ...string) []string { return labels }
