package signals_test

import (
	"context"
	"fmt"

	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/signals"
)

// requests requests one CPU for a number of requests per second.
type requests struct{}

func (requests) Value(ctx context.Context, in signals.Input) (resource.Request, error) {
	perCPU, err := in.Parameters.Float("requests_per_cpu", 100)
	if err != nil {
		return resource.Request{}, err
	}
	rate, ok := in.Metrics["requests"].Max()
	if !ok {
		return resource.Request{}, fmt.Errorf("no requests were measured: %w", signals.ErrNoOpinion)
	}
	signals.Explain(ctx, "%.0f requests/s at most, %.0f a cpu", rate, perCPU)
	return resource.Request{}.With(resource.CPUs, rate/perCPU), nil
}

// A signal is a function of its input, so a test needs no socket.
func ExampleSignal() {
	in := signals.Input{
		Parameters: signals.Parameters{"requests_per_cpu": 50.0},
		Metrics: map[string]signals.Series{
			"requests": {Times: []int64{1700000000, 1700000060}, Values: []float64{200, 150}},
		},
	}
	ctx, explanation := signals.WithExplanation(context.Background())
	fmt.Println(requests{}.Value(ctx, in))
	fmt.Println(explanation())
	in.Metrics = nil
	fmt.Println(requests{}.Value(ctx, in))
	// Output:
	// cpus=4 <nil>
	// 200 requests/s at most, 50 a cpu
	// no opinion no requests were measured: no opinion
}
