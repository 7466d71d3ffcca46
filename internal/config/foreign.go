package config

import (
	"reflect"

	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry"
)

// ignoredReason returns why a key of Clusterman's or a health manager's files is ignored; empty for other keys. Such
// keys are warnings, so that those files load unchanged. A provider's settings list theirs in a method Ignored.
func ignoredReason(t reflect.Type, key string) string {
	if settings, ok := reflect.New(t).Interface().(interface{ Ignored() map[string]string }); ok {
		return settings.Ignored()[key]
	}
	return ignoredKeys(t)[key]
}

// Reasons to ignore a key.
const (
	noKubernetes = "is ignored: weir's agents report nodes and tasks"
	noAlerts     = "is ignored: alert on weir's metrics and events"
	noService    = "is ignored"
	alwaysDrains = "is ignored: a node is always drained before it is ended"
)

func ignoredKeys(t reflect.Type) map[string]string {
	switch t {
	case reflect.TypeFor[Pool]():
		return map[string]string{
			"alert_on_max_capacity": noAlerts, "sensu_config": noAlerts,
			"exclude_daemonset_pods": noKubernetes, "node_label_key": noKubernetes, "pool_label_key": noKubernetes,
			"safe_to_evict_key": noKubernetes, "non_batch_framework_prefixes": noKubernetes,
			"draining_enabled": alwaysDrains,
		}
	case reflect.TypeFor[Draining]():
		return map[string]string{"redraining_delay_seconds": "is ignored: each tick checks every drain"}
	case reflect.TypeFor[Signal](), reflect.TypeFor[Default]():
		return map[string]string{"repository": "is ignored: weir runs published releases"}
	case reflect.TypeFor[Autoscaling]():
		return map[string]string{"setpoint_margin": "is ignored, as in Clusterman: the margin is target_capacity_margin"}
	case reflect.TypeFor[AWS]():
		return map[string]string{"state_table": "is ignored: state is stored on NATS", "add_entrypoint_info": noService}
	case reflect.TypeFor[Cluster]():
		return map[string]string{
			"mesos_master_fqdn": noKubernetes, "kubeconfig_path": noKubernetes, "cluster_manager": noKubernetes,
			"aws_account_number": noService, "drain_queue_url": alwaysDrains, "termination_queue_url": alwaysDrains,
			"sensu_config": noAlerts, "pod_safe_to_evict_annotation": noKubernetes,
			"spot_fleet_resource_groups_cache_seconds":   "is ignored: a tick reads its groups once",
			"auto_scaling_resource_groups_cache_seconds": "is ignored: a tick reads its groups once",
			"always_delay_drain_processing":              noService,
		}
	case reflect.TypeFor[Harmonizer]():
		return cloudfoundry.IgnoredKeys()
	case reflect.TypeFor[Intervals]():
		return cloudfoundry.IgnoredIntervals()
	case reflect.TypeFor[Service]():
		return map[string]string{
			"batches": noService, "cluster_config_directory": "is ignored: give --config-dir",
			"drain_termination_timeout_seconds": noService, "global_redraining_delay_seconds": noService,
			"mesos_maintenance_timeout_seconds": noKubernetes, "mesos": noKubernetes, "exclude_daemonset_pods": noKubernetes,
			"monitoring_client": noAlerts, "sensu_config": noAlerts, "module_config": noService, "yelp_batch": noService,
		}
	}
	return nil
}
