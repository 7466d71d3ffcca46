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

// Describer is a [signals.Signal] that describes itself beyond its build information.
type Describer interface {
	About() About
}

// About is a signal's description of itself. The zero value is valid.
type About struct {
	Name       string      // empty: the name of the program's package
	Version    string      // empty: the module's version in the build information
	Metrics    []Metric    // required for an opinion
	Parameters []Parameter // all parameters that it reads; nil: unspecified
}

// Metric is one entry of a pool file's required_metrics.
type Metric struct {
	Name  string
	Type  MetricType
	Range time.Duration // useful history, in whole seconds; 0: unspecified
	Regex bool          // Name is a regular expression
}

// MetricType is the source of a metric.
type MetricType string

// The types of metrics.
const (
	SystemMetrics  MetricType = "system_metrics"  // use and capacity of the pool's machines
	AppMetrics     MetricType = "app_metrics"     // written by the application itself
	Metadata       MetricType = "metadata"        // facts about the pool
	InstanceCounts MetricType = "instance_counts" // written by the harmonizer
)

// Parameter is a setting in a pool file.
type Parameter struct {
	Name    string
	Type    ParameterType
	Default any    // a JSON value or a time.Duration; nil: no default
	About   string // one line of documentation; may be empty
}

// ParameterType is the type of a parameter, and names its accessor in signals.Parameters.
type ParameterType string

// The types of parameters.
const (
	Any      ParameterType = ""         // any value of a pool file
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

// describe returns the response for bootstrap. signal may be a Describer, and build may be nil.
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

// fillFromBuild sets empty fields from the build information.
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

// schemaOf returns a JSON Schema with exactly these parameters, or nil if they are unspecified.
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

// schemaTypes maps each type to JSON Schema.
var schemaTypes = map[ParameterType]map[string]any{
	Any:      {},
	Number:   {"type": "number"},
	Integer:  {"type": "integer"},
	Text:     {"type": "string"},
	Boolean:  {"type": "boolean"},
	Duration: {"type": "string", "pattern": `^([0-9]*\.?[0-9]+(ns|us|µs|ms|s|m|h))+$`},
}
