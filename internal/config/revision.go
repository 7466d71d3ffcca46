package config

import (
	"path/filepath"
	"slices"
	"strings"
)

// healthManagerFile is the name of the file of Cloud Foundry's health manager.
const healthManagerFile = "health_manager.yml"

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

// chooseDialect chooses the dialect for a file of Cloud Foundry's health manager without the key dialect. It returns
// the dialect and a warning with the file's keys that determine it. If the keys do not show the revision, the dialect
// is empty and the warning requests it. For our own files and in shadow mode, which publishes nothing, both are
// empty.
func (h Harmonizer) chooseDialect(path string) (string, *Problem) {
	d := h.document
	original := filepath.Base(path) == healthManagerFile || len(d.warnings) > 0 || d.given("status")
	if h.Dialect != "" || !original || h.Shadows() {
		return h.Dialect, nil
	}
	first, second := d.presentKeys(firstRevision()), d.presentKeys(secondRevision())
	const (
		set = "set dialect to " + DialectCloudController + " if the controller obeys cloudcontrollers.hm.requests, to " +
			DialectHealth + " if it obeys health.start; " + DialectHealth + " is used"
		chosen = ": set dialect if this is wrong"
	)
	switch {
	case len(first) > 0 && len(second) > 0:
		return "", d.problem("dialect", "is not given, and the file has keys of both protocol revisions ("+
			strings.Join(first, ", ")+"; "+strings.Join(second, ", ")+"): "+set)
	case len(first) > 0:
		return DialectCloudController, d.problem("dialect", "is "+DialectCloudController+
			", by the keys of the first protocol revision ("+strings.Join(first, ", ")+")"+chosen)
	case len(second) > 0:
		return DialectHealth, nil
	}
	return "", d.problem("dialect", "is not given, and no key of the file shows the protocol revision: "+set)
}

// presentKeys returns the paths that the file has, ignored keys included.
func (d document) presentKeys(paths []string) []string {
	return slices.DeleteFunc(paths, func(path string) bool {
		return !d.given(path) && !slices.ContainsFunc(d.warnings, func(p *Problem) bool { return p.Key == path })
	})
}
