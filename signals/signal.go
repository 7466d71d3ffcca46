package signals

import (
	"context"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// Signal turns metrics into a request.
type Signal interface {
	// Value returns what the application needs now. ctx ends when the answer is
	// of no use any more. The errors ErrNoOpinion and ErrStale, also wrapped, are
	// answers, and the request is ignored; any other error is a failure.
	Value(ctx context.Context, in Input) (resource.Request, error)
}

// Input is what a signal decides from.
type Input struct {
	Now        time.Time // of the tick, in whole seconds; use it instead of the clock
	Cluster    string
	Pool       string
	App        string            // whom the signal speaks for
	Parameters Parameters        // from the pool's file
	Metrics    map[string]Series // by key, see the package comment
}

// newInput joins what came over the wire.
func newInput(app string, hello sigproto.Hello, e sigproto.Evaluation) Input {
	in := Input{
		Now:        time.Unix(e.Timestamp, 0).UTC(),
		Cluster:    hello.Cluster,
		Pool:       hello.Pool,
		App:        appOf(app),
		Parameters: hello.Parameters,
		Metrics:    make(map[string]Series, len(e.Series)),
	}
	for _, s := range e.Series {
		in.Metrics[s.Name] = Series{Times: s.Times, Values: s.Values}
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

// appOf returns the app that the third argument names: a second process for one
// app on one host is told APP~1, to make a socket of its own.
func appOf(argument string) string {
	app, _, _ := strings.Cut(argument, "~")
	return app
}
