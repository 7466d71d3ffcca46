// Package trace names the steps of a tick, and has the port through which loops report them.
//
// Tracer.Begin begins a [Step] and returns a function that ends it. A nil [Tracer] does nothing.
// [Join] reports to two tracers, such as metrics and OpenTelemetry. A Tracer may be used
// concurrently if its functions may.
package trace

import (
	"context"
	"strings"
)

// Step is a kind of step.
type Step string

const (
	Tick     Step = "tick"
	Snapshot Step = "snapshot" // read the pool
	Window   Step = "window"   // read one window
	Signal   Step = "signal"   // evaluate one signal
	Decide   Step = "decide"   // compute target, distribution and prune
	Apply    Step = "apply"    // carry out the plan
	Record   Step = "record"   // append the tick to the ledger

	// The calls to the provider.
	ListGroups Step = "provider list_groups"
	ReadGroup  Step = "provider read_group"
	SetTarget  Step = "provider set_target"
	Terminate  Step = "provider terminate"
	Repair     Step = "provider repair"
)

// Call returns the name of a call to the provider.
func (s Step) Call() (name string, ok bool) { return strings.CutPrefix(string(s), "provider ") }

// Tracer begins a step about a group, an app or a metric. The caller calls end once, with the error of the step. A
// Tracer may be called concurrently. A nil one does nothing.
type Tracer func(ctx context.Context, step Step, about string) (inner context.Context, end func(error))

// Begin begins a step.
func (t Tracer) Begin(ctx context.Context, step Step, about string) (inner context.Context, end func(error)) {
	if t == nil {
		return ctx, func(error) {}
	}
	return t(ctx, step, about)
}

// Do runs do as a step.
func (t Tracer) Do(ctx context.Context, step Step, about string, do func(context.Context) error) error {
	ctx, end := t.Begin(ctx, step, about)
	err := do(ctx)
	end(err)
	return err
}

// Join returns a Tracer that reports to both.
func Join(a, b Tracer) Tracer {
	return func(ctx context.Context, step Step, about string) (context.Context, func(error)) {
		ctx, endA := a.Begin(ctx, step, about)
		ctx, endB := b.Begin(ctx, step, about)
		return ctx, func(err error) {
			endB(err)
			endA(err)
		}
	}
}
