package config

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestDialectOfTheFile loads files of both protocol revisions of Cloud Foundry's health manager, and files of our
// own. The dialect is the one that the controller obeys, or a warning requests it.
func TestDialectOfTheFile(t *testing.T) {
	const (
		controller = "mbus: nats://127.0.0.1:4222/\nbulk_api: {host: api.example.org}\n"
		sample     = controller + `local_route: 127.0.0.1
logging: {level: info}
shadow_mode: disable
intervals: {desired_state_update: 60, desired_state_lost: 180, postpone_update: 30, droplets_analysis: 20,
  max_droplets_in_varz: 0, check_nats_availability: 5}
status: {port: 54321, user: u, password: p}
`
		later = controller + "number_of_droplets_analyzed_per_analysis_iteration: 200\nintervals: {desired_state_update: 60}\n"
	)
	for _, tt := range []struct {
		name, file, text string
		want             string
		warns            string // part of the warning of dialect, "" for no such warning
	}{
		{"first revision", "health_manager.yml", sample, DialectCloudController, "first protocol revision (shadow_mode, intervals.postpone_update, intervals.max_droplets_in_varz)"},
		{"first revision, under another name", "hm.yml", sample, DialectCloudController, "first protocol revision"},
		{"first names of intervals", "health_manager.yml", controller + "intervals: {expected_state_update: 60}\n", DialectCloudController, "(intervals.expected_state_update)"},
		{"the first of all", "health_manager.yml", controller + "dequeueing_rate: 50\nintervals: {database_scan: 60, restart_timeout: 20, stable_state: 60}\n", DialectCloudController, "first protocol revision"},
		{"first revision, the dialect is given", "health_manager.yml", sample + "dialect: health\n", dialectHealth, ""},
		{"first revision, both are given", "health_manager.yml", sample + "dialect: both\n", dialectBoth, ""},
		{"later revision", "health_manager.yml", later, dialectHealth, ""},
		{"later revision, the dialect is given", "health_manager.yml", later + "dialect: cloudcontroller\n", DialectCloudController, ""},
		{"keys of both", "health_manager.yml", later + "shadow_mode: disable\n", dialectHealth, "keys of both protocol revisions (shadow_mode; number_of_droplets_analyzed_per_analysis_iteration): set dialect to cloudcontroller"},
		{"keys of neither", "health_manager.yml", controller, dialectHealth, "no key of the file shows the protocol revision: set dialect to cloudcontroller"},
		{"keys of neither, under another name", "hm.yml", controller + "local_route: 127.0.0.1\n", dialectHealth, "no key of the file shows"},
		{"empty", "health_manager.yml", "", dialectHealth, "no key of the file shows"},
		{"a shadow publishes nothing", "health_manager.yml", later + "shadow_mode: enable\n", dialectHealth, ""},
		{"our own", "harmonizer.yaml", controller + "shadow_mode: disable\nintervals: {expected_state_update: 60, nats_request_timeout: 5}\n", dialectHealth, ""},
		{"our own, empty", "harmonizer.yaml", "", dialectHealth, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := writeFile(t, filepath.Join(t.TempDir(), tt.file), tt.text)
			h, warnings, err := ReadHarmonizer(file)
			if err != nil {
				t.Fatal(err)
			}
			var warned strings.Builder
			for _, w := range warnings {
				if w.Key == "dialect" {
					warned.WriteString(w.What)
				}
			}
			if h.Dialect != tt.want || (warned.String() == "") != (tt.warns == "") || !strings.Contains(warned.String(), tt.warns) {
				t.Errorf("dialect %s with the warning %q, want %s with %q", h.Dialect, warned.String(), tt.want, tt.warns)
			}
			if stops := h.Rules().StopsWholeApps; stops != (tt.want != dialectHealth) {
				t.Errorf("rules for a controller that stops whole apps: %v", stops)
			}
		})
	}
}

// A file of Cloud Foundry's health manager must state whether DEAs run here. Without the key their messages are dropped,
// which a warning reports.
func TestLegacyDEAs(t *testing.T) {
	const asks = "legacy_deas: is not given, so messages of DEAs are dropped: set it to true if DEAs run here, otherwise to false"
	for _, tt := range []struct {
		name, file, text string
		want, warns      bool
	}{
		{"not given", "health_manager.yml", "dialect: health\n", false, true},
		{"true", "health_manager.yml", "dialect: health\nlegacy_deas: true\n", true, false},
		{"false", "health_manager.yml", "dialect: health\nlegacy_deas: false\n", false, false},
		{"shadow", "health_manager.yml", "shadow_mode: enable\n", false, true},
		{"our own file", "harmonizer.yaml", "", false, false},
		{"our own file, true", "harmonizer.yaml", "legacy_deas: true\n", true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, warnings, err := ReadHarmonizer(writeFile(t, filepath.Join(t.TempDir(), tt.file), tt.text))
			if err != nil {
				t.Fatal(err)
			}
			warned := slices.ContainsFunc(warnings, func(w *keyProblem) bool { return strings.HasSuffix(w.Error(), asks) })
			if h.LegacyDEAs != tt.want || warned != tt.warns {
				t.Errorf("legacy_deas %v, warned %v (%v); want %v, %v", h.LegacyDEAs, warned, warnings, tt.want, tt.warns)
			}
		})
	}
}
