package aws

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseOwner(t *testing.T) {
	for _, tc := range []struct {
		name, value string
		want        owner
		ok          bool
	}{
		{"Clusterman's", `{"pool": "default", "paasta_cluster": "prod"}`, owner{"prod", "default"}, true},
		{"ours in JSON", `{"cluster": "prod", "pool": "default", "more": [1]}`, owner{"prod", "default"}, true},
		{"text", " prod/default ", owner{"prod", "default"}, true},
		{"two clusters", `{"cluster": "a", "paasta_cluster": "b", "pool": "default"}`, owner{}, false},
		{"no pool", `{"cluster": "prod"}`, owner{"prod", ""}, false},
		{"no cluster", `{"pool": "default"}`, owner{"", "default"}, false},
		{"a number", `{"pool": 1, "cluster": "prod"}`, owner{}, false},
		{"half", `{"pool": "default"`, owner{}, false},
		{"empty", "", owner{}, false},
		{"no slash", "default", owner{"default", ""}, false},
		{"too many slashes", "a/b/c", owner{"a", "b/c"}, false},
		{"huge", "a/" + strings.Repeat("b", maxTag), owner{}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := parseOwner(tc.value)
			if ok != tc.ok || ok && got != tc.want {
				t.Errorf("parseOwner = %v, %v, want %v, %v", got, ok, tc.want, tc.ok)
			}
		})
	}
}

func TestParseList(t *testing.T) {
	for _, tc := range []struct {
		name, data string
		want       map[string]string
		bad        string
	}{
		{"Clusterman's", `{"cluster_autoscaling_resources": {"aws_spot_fleet_request": {"id": "sfr-1", "pool": "default"},
			"aws_spot_fleet_request_2": {"id": "sfr-2", "pool": "gpu", "other": {}}, "aws_asg": "web"}}`,
			map[string]string{"sfr-1": "default", "sfr-2": "gpu"}, ""},
		{"none of ours", `{"cluster_autoscaling_resources": {}}`, map[string]string{}, ""},
		{"another object", `{"resources": {}}`, nil, "no \"cluster_autoscaling_resources\""},
		{"no pool", `{"cluster_autoscaling_resources": {"aws_spot_fleet_request": {"id": "sfr-1"}}}`, nil, "want \"id\" and \"pool\""},
		{"in two pools", `{"cluster_autoscaling_resources": {"aws_spot_fleet_request": {"id": "sfr-1", "pool": "a"},
			"aws_spot_fleet_request_2": {"id": "sfr-1", "pool": "b"}}}`, nil, errTwoPools.Error()},
		{"null", `{"cluster_autoscaling_resources": {"aws_spot_fleet_request": null}}`, nil, "want \"id\" and \"pool\""},
		{"no JSON", `<html>`, nil, "not a list"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parseList([]byte(tc.data))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if tc.bad == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.bad) {
				t.Errorf("error %v, want %q", err, tc.bad)
			}
		})
	}
}

func FuzzParseOwner(f *testing.F) {
	for _, seed := range []string{named, ours, "{", `{"pool":null}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if o, ok := parseOwner(value); ok && (o.cluster == "" || o.pool == "") {
			t.Errorf("parseOwner(%q) = %v", value, o)
		}
	})
}

func FuzzParseList(f *testing.F) {
	f.Add([]byte(`{"cluster_autoscaling_resources": {"aws_spot_fleet_request": {"id": "sfr-1", "pool": "default"}}}`))
	f.Add([]byte(`{"cluster_autoscaling_resources": {"aws_spot_fleet_request": []}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		fleets, err := parseList(data)
		for id, pool := range fleets {
			if err != nil || id == "" || pool == "" {
				t.Errorf("%q: %q, %v", id, pool, err)
			}
		}
	})
}
