package cloudfoundry

import (
	"slices"
	"strings"
)

// File is the name of the file of Cloud Foundry's health manager.
const File = "health_manager.yml"

// NoLegacyDEAs is what a warning reports if a [File] has no key legacy_deas.
const NoLegacyDEAs = "is not given, so messages of DEAs are dropped: set it to true if DEAs run here, otherwise to false"

const (
	noService = "is ignored"
	noScan    = "is ignored: deadlines replace scans"
)

// IgnoredKeys returns the keys of a [File] that have no meaning here, and why.
func IgnoredKeys() map[string]string {
	return map[string]string{
		"local_route": noService, "pid": noService, "black_box_test_mode": noService,
		"logging":              "is ignored: give --log-level",
		"known_state_provider": noService, "expected_state_provider": noService, "run_loop_interval": noScan,
		"number_of_droplets_analyzed_per_analysis_iteration": noScan,
		"dequeueing_rate": "is ignored: give queue_batch_size",
	}
}

// IgnoredIntervals returns the keys in intervals of a [File] that have no meaning here, and why.
func IgnoredIntervals() map[string]string {
	return map[string]string{
		"droplets_analysis": noScan, "analysis_delay": noScan, "run_loop_interval": noScan, "droplet_gc": noScan,
		"postpone_update":      "is ignored: readings of the bulk API do not overlap",
		"max_droplets_in_varz": "is ignored: weir app status shows all",
		"database_scan":        noScan, "stable_state": noScan,
		"restart_timeout":         "is ignored: give min_restart_delay",
		"check_nats_availability": "is ignored: weir always watches the bus",
	}
}

// firstRevision returns the keys that only the health manager of the first protocol revision read. Its controllers
// obey cloudcontrollers.hm.requests.PARTITION.
func firstRevision() []string {
	return []string{
		"shadow_mode", "known_state_provider", "expected_state_provider", "run_loop_interval", "dequeueing_rate",
		"intervals.expected_state_update", "intervals.expected_state_lost", "intervals.postpone_update",
		"intervals.nats_request_timeout", "intervals.max_droplets_in_varz", "intervals.max_shadowing_delay",
		"intervals.check_shadowing", "intervals.database_scan", "intervals.restart_timeout", "intervals.stable_state",
	}
}

// secondRevision returns the keys that only the later health manager read. Its controllers obey health.start and
// health.stop.
func secondRevision() []string {
	return []string{
		"number_of_droplets_analyzed_per_analysis_iteration", "black_box_test_mode", "intervals.bulk_credentials_timeout",
	}
}

// ChooseDialect returns the dialect for a [File] without the key dialect, and what a warning reports of it. has reports
// whether the file has a key, ignored keys included. If the keys do not show the revision, the dialect is empty and the
// warning requests it. Without a warning, the keys show the later revision.
func ChooseDialect(has func(path string) bool) (d Dialect, warning string) {
	missing := func(path string) bool { return !has(path) }
	first, second := slices.DeleteFunc(firstRevision(), missing), slices.DeleteFunc(secondRevision(), missing)
	const (
		set = "set dialect to " + string(DialectCloudController) + " if the controller obeys cloudcontrollers.hm.requests, to " +
			string(DialectHealth) + " if it obeys health.start; " + string(DialectHealth) + " is used"
		chosen = ": set dialect if this is wrong"
	)
	switch {
	case len(first) > 0 && len(second) > 0:
		return "", "is not given, and the file has keys of both protocol revisions (" +
			strings.Join(first, ", ") + "; " + strings.Join(second, ", ") + "): " + set
	case len(first) > 0:
		return DialectCloudController, "is " + string(DialectCloudController) +
			", by the keys of the first protocol revision (" + strings.Join(first, ", ") + ")" + chosen
	case len(second) > 0:
		return DialectHealth, ""
	}
	return "", "is not given, and no key of the file shows the protocol revision: " + set
}
