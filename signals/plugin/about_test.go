package plugin

import (
	"math"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	signalv1 "github.com/weirkeeper/weirkeeper/proto/signal/v1"
)

// described is a Describer; its other methods are not used.
type described About

func (d described) About() About { return About(d) }

func TestDescribe(t *testing.T) {
	build := &debug.BuildInfo{
		Path: "example.com/shop/cmd/rps", Main: debug.Module{Path: "example.com/shop", Version: "v1.4.0"},
		Deps: []*debug.Module{{Path: "github.com/weirkeeper/weirkeeper", Version: "v0.3.0"}},
	}
	encodings := []string{"json", "columnar"}
	for _, test := range []struct {
		name   string
		signal any
		build  *debug.BuildInfo
		want   *signalv1.DescribeResponse
	}{
		{"nothing but the build", struct{}{}, build, &signalv1.DescribeResponse{
			Name: "rps", Version: "v1.4.0", Sdk: "weirkeeper-go v0.3.0", Encodings: encodings, WireVersion: 1}},
		{"nothing at all", struct{}{}, nil, &signalv1.DescribeResponse{Sdk: "weirkeeper-go", Encodings: encodings, WireVersion: 1}},
		{"the author's values win", described{
			Name: "n", Version: "v",
			Metrics: []Metric{{Name: "m", Type: SystemMetrics, Range: 90 * time.Second}, {Name: "a.*", Type: AppMetrics, Regex: true}},
			Parameters: []Parameter{
				{Name: "wait", Type: Duration, Default: time.Minute, About: "how long"}, {Name: "any"}},
		}, build, &signalv1.DescribeResponse{
			Name: "n", Version: "v", Sdk: "weirkeeper-go v0.3.0", Encodings: encodings, WireVersion: 1,
			RequiredMetrics: []*signalv1.RequiredMetric{
				{Name: "m", Type: "system_metrics", RangeSeconds: 90}, {Name: "a.*", Type: "app_metrics", Regex: true}},
			ParametersSchema: []byte(`{"$schema":"https://json-schema.org/draft/2020-12/schema","additionalProperties":false,` +
				`"properties":{"any":{},"wait":{"default":"1m0s","description":"how long",` +
				`"pattern":"^([0-9]*\\.?[0-9]+(ns|us|µs|ms|s|m|h))+$","type":"string"}},"type":"object"}`),
		}},
		{"an empty list of parameters", described{Parameters: []Parameter{}}, nil, &signalv1.DescribeResponse{
			Sdk: "weirkeeper-go", Encodings: encodings, WireVersion: 1,
			ParametersSchema: []byte(`{"$schema":"https://json-schema.org/draft/2020-12/schema","additionalProperties":false,` +
				`"properties":{},"type":"object"}`),
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := describe(test.signal, test.build)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("describe: -want +got\n%s", diff)
			}
		})
	}
}

func TestAboutRefuses(t *testing.T) {
	for _, test := range []struct {
		name  string
		about About
		word  string
	}{
		{"nameless metric", About{Metrics: []Metric{{Type: AppMetrics}}}, "metric 0 has no name"},
		{"unknown type of a metric", About{Metrics: []Metric{{Name: "m", Type: "x"}}}, `metric "m" has type "x"`},
		{"negative range", About{Metrics: []Metric{{Name: "m", Type: AppMetrics, Range: -1}}}, `"m" has range`},
		{"range beyond the message", About{Metrics: []Metric{{Name: "m", Type: AppMetrics, Range: math.MaxInt64}}}, `"m" has range`},
		{"nameless parameter", About{Parameters: []Parameter{{}}}, "parameter 0"},
		{"a parameter twice", About{Parameters: []Parameter{{Name: "p"}, {Name: "p"}}}, `parameter 1 has the name "p"`},
		{"unknown type of a parameter", About{Parameters: []Parameter{{Name: "p", Type: "x"}}}, `"p" has type "x"`},
		{"a default that JSON does not have", About{Parameters: []Parameter{{Name: "p", Default: math.NaN()}}}, `default of parameter "p"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := describe(described(test.about), nil); err == nil || !strings.Contains(err.Error(), test.word) {
				t.Errorf("describe: %v, want %q", err, test.word)
			}
		})
	}
}
