// Package signals is what the author of a signal imports. A signal turns windows
// of metrics into a resource request; it runs as a process of its own, and the
// autoscaler asks it over a socket (package sigproto).
//
// One type with one method, and a main:
//
//	type requests struct{}
//
//	func (requests) Value(ctx context.Context, in signals.Input) (resource.Request, error) {
//		perCPU, err := in.Parameters.Float("requests_per_cpu", 100)
//		if err != nil {
//			return resource.Request{}, err
//		}
//		rate, ok := in.Metrics["requests"].Max()
//		if !ok {
//			return resource.Request{}, fmt.Errorf("no requests were measured: %w", signals.ErrNoOpinion)
//		}
//		signals.Explain(ctx, "%.0f requests/s at most, %.0f a cpu", rate, perCPU)
//		return resource.Request{}.With(resource.CPUs, rate/perCPU), nil
//	}
//
//	func main() { signals.Main(requests{}) }
//
// # Metrics
//
// Windows come by key: the metric's name, and after it its dimensions in order
// of their names, if it has any: "cpus_allocated", "instances_expected|app=web".
// The dimensions cluster and pool are left out, and so is the application before
// the name of one of its own metrics. A key that is absent yields the zero
// [Series], which is empty: the methods of a series report whether there was
// anything to tell from, so an absent window never looks like zero demand.
//
// # What an answer means
//
// A kind that the request leaves out has no opinion, and the pool stays as it is
// for it; zero asks for none. A signal that has no opinion at all returns
// [ErrNoOpinion], one whose data is too old for one [ErrStale], and both may be
// wrapped in a sentence that says why. Any other error, a panic and an invalid
// request reach the autoscaler as an error: they are never taken as "no opinion".
//
// What a signal says with [Explain] is shown to the operator who asks why the
// pool was scaled.
//
// # Concurrency
//
// [Serve] calls Value from one goroutine for each connection. Usually there is
// one, but a swap, a standby or an abandoned evaluation brings a second: a signal
// that keeps state guards it. An Input is the callee's to keep.
package signals
