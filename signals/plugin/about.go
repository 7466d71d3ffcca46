package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"runtime/debug"
	"slices"
	"time"

	signalv1 "github.com/weirkeeper/weirkeeper/proto/signal/v1"
)

const (
	sdkModule     = "github.com/weirkeeper/weirkeeper"
	schemaDialect = "https://json-schema.org/draft/2020-12/schema"
)

// Describer is a [signals.Signal] that tells more of itself than its build does.
type Describer interface {
	About() About
}

// About is what a signal tells of itself. The zero value is good.
type About struct {
	Name       string      // empty: that of the program's package
	Version    string      // empty: that of the module, as the build has it
	Metrics    []Metric    // without which it has no opinion
	Parameters []Parameter // all that it reads; nil: it does not tell
}

// Metric is one entry of a pool file's required_metrics.
type Metric struct {
	Name  string
	Type  MetricType
	Range time.Duration // how much of its past is of use, in whole seconds; 0: it does not tell
	Regex bool          // Name is a regular expression
}

// MetricType says where a metric comes from.
type MetricType string

// The types of metrics.
const (
	SystemMetrics  MetricType = "system_metrics"  // what the pool's machines use and have
	AppMetrics     MetricType = "app_metrics"     // what the application itself writes
	Metadata       MetricType = "metadata"        // what is known of the pool
	InstanceCounts MetricType = "instance_counts" // what the harmonizer counts
)

// Parameter is one setting that a pool file may make.
type Parameter struct {
	Name    string
	Type    ParameterType
	Default any    // of a type that JSON has, or a time.Duration; nil: there is none
	About   string // one line, for people; may be empty
}

// ParameterType says how a parameter is written, and read from signals.Parameters.
type ParameterType string

// The types of parameters.
const (
	Any      ParameterType = ""         // whatever a pool file can hold
	Number   ParameterType = "number"   // Parameters.Float
	Integer  ParameterType = "integer"  // Parameters.Int
	Text     ParameterType = "string"   // Parameters.String
	Boolean  ParameterType = "boolean"  // Parameters.Bool
	Duration ParameterType = "duration" // Parameters.Duration
)

// Validate returns every problem of the description.
func (a About) Validate() error {
	var errs []error
	for i, m := range a.Metrics {
		if m.Name == "" {
			errs = append(errs, fmt.Errorf("metric %d has no name", i))
		}
		if !slices.Contains([]MetricType{SystemMetrics, AppMetrics, Metadata, InstanceCounts}, m.Type) {
			errs = append(errs, fmt.Errorf("metric %q has type %q", m.Name, m.Type))
		}
		if m.Range < 0 || m.Range/time.Second > math.MaxUint32 {
			errs = append(errs, fmt.Errorf("metric %q has range %s", m.Name, m.Range))
		}
	}
	seen := map[string]bool{}
	for i, p := range a.Parameters {
		if p.Name == "" || seen[p.Name] {
			errs = append(errs, fmt.Errorf("parameter %d has the name %q: empty, or not the first of that name", i, p.Name))
		}
		seen[p.Name] = true
		if !slices.Contains([]ParameterType{Any, Number, Integer, Text, Boolean, Duration}, p.Type) {
			errs = append(errs, fmt.Errorf("parameter %q has type %q", p.Name, p.Type))
		}
		if _, err := json.Marshal(p.Default); err != nil {
			errs = append(errs, fmt.Errorf("default of parameter %q: %w", p.Name, err))
		}
	}
	return errors.Join(errs...)
}

// describe returns what is answered to bootstrap, of a signal that may be a
// Describer, in a program that may know how it was built.
func describe(signal any, build *debug.BuildInfo) (*signalv1.DescribeResponse, error) {
	var about About
	if d, ok := signal.(Describer); ok {
		about = d.About()
	}
	if err := about.Validate(); err != nil {
		return nil, fmt.Errorf("the signal's About: %w", err)
	}
	answer := &signalv1.DescribeResponse{
		Name: about.Name, Version: about.Version, Sdk: "weirkeeper-go",
		Encodings:   []string{signalv1.EncodingJSON, signalv1.EncodingColumnar},
		WireVersion: signalv1.WireVersion,
	}
	fillFromBuild(answer, build)
	for _, m := range about.Metrics {
		answer.RequiredMetrics = append(answer.RequiredMetrics, &signalv1.RequiredMetric{
			Name: m.Name, Type: string(m.Type), RangeSeconds: uint32(m.Range / time.Second), Regex: m.Regex,
		})
	}
	schema, err := schemaOf(about.Parameters)
	if err != nil {
		return nil, fmt.Errorf("schema of the parameters: %w", err)
	}
	answer.ParametersSchema = schema
	return answer, nil
}

// fillFromBuild fills in what the author left to the build.
func fillFromBuild(answer *signalv1.DescribeResponse, build *debug.BuildInfo) {
	if build == nil {
		return
	}
	if answer.Name == "" && build.Path != "" {
		answer.Name = path.Base(build.Path)
	}
	if answer.Version == "" {
		answer.Version = build.Main.Version
	}
	for _, m := range append([]*debug.Module{&build.Main}, build.Deps...) {
		if m.Path == sdkModule && m.Version != "" {
			answer.Sdk += " " + m.Version
		}
	}
}

// schemaOf returns a JSON Schema that knows these parameters and no others; nil
// if the signal does not tell.
func schemaOf(parameters []Parameter) ([]byte, error) {
	if parameters == nil {
		return nil, nil
	}
	properties := make(map[string]map[string]any, len(parameters))
	for _, p := range parameters {
		property := maps.Clone(schemaTypes[p.Type])
		if p.About != "" {
			property["description"] = p.About
		}
		switch fallback := p.Default.(type) {
		case nil:
		case time.Duration:
			property["default"] = fallback.String()
		default:
			property["default"] = fallback
		}
		properties[p.Name] = property
	}
	return json.Marshal(map[string]any{
		"$schema": schemaDialect, "type": "object", "properties": properties, "additionalProperties": false,
	})
}

// schemaTypes says what each type is in JSON Schema.
var schemaTypes = map[ParameterType]map[string]any{
	Any:      {},
	Number:   {"type": "number"},
	Integer:  {"type": "integer"},
	Text:     {"type": "string"},
	Boolean:  {"type": "boolean"},
	Duration: {"type": "string", "pattern": `^([0-9]*\.?[0-9]+(ns|us|µs|ms|s|m|h))+$`},
}
