package signals_test

import (
	"context"
	"fmt"

	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/signals"
)

// requests asks for one cpu per so many requests in a second.
type requests struct{}

func (requests) Value(_ context.Context, in signals.Input) (resource.Request, error) {
	perCPU, err := in.Parameters.Float("requests_per_cpu", 100)
	if err != nil {
		return resource.Request{}, err
	}
	rate, ok := in.Metrics["requests"].Max()
	if !ok {
		return resource.Request{}, nil // no data: no opinion
	}
	return resource.Request{}.With(resource.CPUs, rate/perCPU), nil
}

// A signal is tested without a socket: it is a function of its input.
func ExampleSignal() {
	in := signals.Input{
		Parameters: signals.Parameters{"requests_per_cpu": 50.0},
		Metrics: map[string]signals.Series{
			"requests": {Times: []int64{1700000000, 1700000060}, Values: []float64{200, 150}},
		},
	}
	fmt.Println(requests{}.Value(context.Background(), in))
	in.Metrics = nil
	fmt.Println(requests{}.Value(context.Background(), in))
	// Output:
	// cpus=4 <nil>
	// no opinion <nil>
}
