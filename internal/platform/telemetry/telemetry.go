// Package telemetry exports the steps of ticks as OpenTelemetry traces, by OTLP over HTTP.
//
// The standard variables OTEL_* configure it. Without an endpoint it is off. An unreachable collector delays no step:
// spans wait in a bounded queue, and are dropped when it is full.
//
// [Open] returns a tracer, which may be used concurrently, and a function that sends the rest.
package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/internal/platform/trace"
)

const (
	scope = "github.com/weirkeeper/weirkeeper"
	// closeTimeout bounds the export of the last spans.
	closeTimeout = 2 * time.Second
	// maxText bounds an attribute and the text of an error, in bytes.
	maxText = 256
)

// Prefix begins the names of the variables. The parent of a daemon passes them on.
const Prefix = "OTEL_"

// isEnabled reports whether the environment names a collector and does not turn traces off.
func isEnabled(getenv func(string) string) bool {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "" || getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != ""
}

// Open returns a Tracer by the environment of the process, and a function that exports the last spans. If traces are
// off, the Tracer is nil. service is the name of the process if OTEL_SERVICE_NAME is not set; about are pairs of
// attribute keys and values of all spans.
func Open(ctx context.Context, service string, log *slog.Logger, about ...string) (trace.Tracer, func(), error) {
	if !isEnabled(os.Getenv) {
		return nil, func() {}, nil
	}
	if protocol := os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"); protocol != "" && protocol != "http/protobuf" {
		return nil, nil, fmt.Errorf("open traces: OTEL_EXPORTER_OTLP_PROTOCOL is %q: Weirkeeper supports http/protobuf; correct the variable", protocol)
	}
	attributes := []attribute.KeyValue{attribute.String("service.name", service)}
	for i := 0; i+1 < len(about); i += 2 {
		attributes = append(attributes, attribute.String(about[i], prose.Line(about[i+1], maxText)))
	}
	process, err := resource.New(ctx, resource.WithAttributes(attributes...), resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return nil, nil, fmt.Errorf("open traces: %w; correct OTEL_RESOURCE_ATTRIBUTES", err)
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("open traces: %w; correct the variables OTEL_EXPORTER_OTLP_*", err)
	}
	otel.SetErrorHandler(&logged{log: log})
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(process))
	log.Info("traces enabled", "service", service)
	return tracer(provider), func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			log.Warn("last traces not exported", "err", err)
		}
	}, nil
}

// tracer returns a Tracer that makes a span of each step.
func tracer(provider *sdktrace.TracerProvider) trace.Tracer {
	spans := provider.Tracer(scope)
	return func(ctx context.Context, step trace.Step, about string) (context.Context, func(error)) {
		ctx, span := spans.Start(ctx, string(step))
		if about != "" {
			span.SetAttributes(attribute.String(keyOf(step), prose.Line(about, maxText)))
		}
		return ctx, func(err error) {
			if err != nil {
				span.SetStatus(codes.Error, prose.Line(err.Error(), maxText))
			}
			span.End()
		}
	}
}

// keyOf returns the attribute of what a step is about.
func keyOf(step trace.Step) string {
	switch step {
	case trace.Window:
		return "weir.metric"
	case trace.Signal:
		return "weir.app"
	}
	return "weir.group"
}

// logged logs the errors of exports, at most one a minute.
type logged struct {
	log  *slog.Logger
	last atomic.Int64 // Unix time, in seconds
}

// Handle implements otel.ErrorHandler.
func (l *logged) Handle(err error) {
	now, last := time.Now().Unix(), l.last.Load()
	if now-last >= 60 && l.last.CompareAndSwap(last, now) {
		l.log.Warn("traces not exported", "err", prose.Line(err.Error(), maxText))
	}
}
