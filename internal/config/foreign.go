package config

import "reflect"

// meaningless says why a key of Clusterman's files, or of a health manager's,
// means nothing here; empty if it is no such key. These are read over and told as
// warnings, so that their files load unchanged. The settings of a provider name theirs
// in a method Ignored.
func meaningless(t reflect.Type, key string) string {
	if settings, ok := reflect.New(t).Interface().(interface{ Ignored() map[string]string }); ok {
		return settings.Ignored()[key]
	}
	return foreign(t)[key]
}

// Why keys are read over.
const (
	noKubernetes = "means nothing here: nodes and tasks are told by weir's agents"
	noAlerts     = "means nothing here: alert on weir's metrics and events"
	noService    = "means nothing here"
	noScan       = "means nothing here: what is due is found by its deadline"
	alwaysDrains = "means nothing here: a node is always drained before it is ended"
)

func foreign(t reflect.Type) map[string]string {
	switch t {
	case reflect.TypeFor[Pool]():
		return map[string]string{
			"alert_on_max_capacity": noAlerts, "sensu_config": noAlerts,
			"exclude_daemonset_pods": noKubernetes, "node_label_key": noKubernetes, "pool_label_key": noKubernetes,
			"safe_to_evict_key": noKubernetes, "non_batch_framework_prefixes": noKubernetes,
			"draining_enabled": alwaysDrains, "node_migration": "means nothing here: use weir pool mark-stale",
		}
	case reflect.TypeFor[Draining]():
		return map[string]string{"redraining_delay_seconds": "means nothing here: a drain is looked at each tick"}
	case reflect.TypeFor[Signal](), reflect.TypeFor[Default]():
		return map[string]string{"repository": "means nothing here: a release is what is published"}
	case reflect.TypeFor[Autoscaling]():
		return map[string]string{"setpoint_margin": "means nothing here, nor did it in Clusterman: the margin is target_capacity_margin"}
	case reflect.TypeFor[AWS]():
		return map[string]string{"state_table": "means nothing here: state is kept on NATS", "add_entrypoint_info": noService}
	case reflect.TypeFor[Cluster]():
		return map[string]string{
			"mesos_master_fqdn": noKubernetes, "kubeconfig_path": noKubernetes, "cluster_manager": noKubernetes,
			"aws_account_number": noService, "drain_queue_url": alwaysDrains, "termination_queue_url": alwaysDrains,
			"sensu_config": noAlerts, "pod_safe_to_evict_annotation": noKubernetes,
			"spot_fleet_resource_groups_cache_seconds":   "means nothing here: a tick reads its groups once",
			"auto_scaling_resource_groups_cache_seconds": "means nothing here: a tick reads its groups once",
			"always_delay_drain_processing":              noService,
		}
	case reflect.TypeFor[Harmonizer]():
		return map[string]string{
			"local_route": noService, "pid": noService, "black_box_test_mode": noService,
			"logging":              "means nothing here: give --log-level",
			"known_state_provider": noService, "expected_state_provider": noService, "run_loop_interval": noScan,
			"number_of_droplets_analyzed_per_analysis_iteration": noScan,
			"dequeueing_rate": "means nothing here: give queue_batch_size",
		}
	case reflect.TypeFor[Intervals]():
		return map[string]string{
			"droplets_analysis": noScan, "analysis_delay": noScan, "run_loop_interval": noScan, "droplet_gc": noScan,
			"postpone_update":      "means nothing here: readings of the bulk API do not overlap",
			"max_droplets_in_varz": "means nothing here: weir app status shows all",
			"database_scan":        noScan, "stable_state": noScan,
			"restart_timeout":         "means nothing here: give min_restart_delay",
			"check_nats_availability": "means nothing here: the bus is watched all the time",
		}
	case reflect.TypeFor[Service]():
		return map[string]string{
			"batches": noService, "cluster_config_directory": "means nothing here: give --config-dir",
			"drain_termination_timeout_seconds": noService, "global_redraining_delay_seconds": noService,
			"mesos_maintenance_timeout_seconds": noKubernetes, "mesos": noKubernetes, "exclude_daemonset_pods": noKubernetes,
			"monitoring_client": noAlerts, "sensu_config": noAlerts, "module_config": noService, "yelp_batch": noService,
		}
	}
	return nil
}
