package metric

// Units of values. The weight is that of the groups' instances.
const (
	seconds = "seconds"
	weight  = "weight"
	nodes   = "nodes"
	perKind = "cores, MB" // of cpus and gpus; of mem and disk
)

// Prefixes of the names of each part.
const (
	AutoscalerPrefix = "weir_autoscaler_"
	HealthPrefix     = "weir_health_"
	BootstrapPrefix  = "weir_bootstrap_"
	HarmonizerPrefix = "weir_harmonizer_"
	PlacerPrefix     = "weir_placer_"
	AuthPrefix       = "weir_auth_"
	NotifyPrefix     = "weir_notify_"
)

func list(labels ...string) []string { return labels }
