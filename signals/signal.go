package signals

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// Signal turns metrics into a request.
type Signal interface {
	// Value returns what the application needs now. ctx ends when the answer is no longer needed. ErrNoOpinion and
	// ErrStale, also wrapped, are answers; the request is then ignored. Any other error is a failure.
	Value(ctx context.Context, in Input) (resource.Request, error)
}

// Input is the input of a signal's decision.
type Input struct {
	Now        time.Time // time of the tick, in whole seconds; use it instead of the clock
	Cluster    string
	Pool       string
	App        string            // the application that the signal serves
	Setpoint   float64           // share of its capacity that the pool should use: capacity = request / Setpoint; 0: unknown
	Launch     time.Duration     // of an advisor: 95 of 100 new machines of the pool join it in that time; 0: unknown
	Parameters Parameters        // from the pool's file
	Metrics    map[string]Series // by key, see the package comment
}

// newInput builds the input from a hello and an evaluation.
func newInput(app string, hello sigproto.Hello, e sigproto.Evaluation) Input {
	in := Input{
		Now:        time.Unix(e.Timestamp, 0).UTC(),
		Cluster:    hello.Cluster,
		Pool:       hello.Pool,
		Setpoint:   hello.Setpoint,
		Launch:     hello.Launch,
		App:        sigproto.AppOf(app),
		Parameters: hello.Parameters,
		Metrics:    make(map[string]Series, len(e.Series)),
	}
	for _, s := range e.Series {
		in.Metrics[s.Name] = Series{Times: s.Times, Values: s.Values}
	}
	for _, s := range e.Series {
		name, counts := strings.CutSuffix(s.Name, sigproto.CountSuffix)
		if of, ok := in.Metrics[name]; counts && ok && slices.Equal(of.Times, s.Times) {
			of.Counts = s.Values
			in.Metrics[name] = of
		}
	}
	return in
}

// toWire returns the resources of a valid request.
func toWire(r resource.Request) sigproto.Resources {
	value := func(k resource.Kind) *float64 {
		if x, ok := r.Get(k); ok {
			return &x
		}
		return nil
	}
	return sigproto.Resources{
		CPUs: value(resource.CPUs), Mem: value(resource.Mem), Disk: value(resource.Disk), GPUs: value(resource.GPUs),
	}
}
