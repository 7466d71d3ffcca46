// Package signals is the SDK for authors of signals. A signal turns windows of metrics into a resource request. It runs
// as its own process, and the autoscaler sends requests to it over a socket (package sigproto).
//
// A signal is one type with one method, and a main function:
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
// The key of a window is the metric's name, followed by its dimensions, sorted by name: "cpus_allocated",
// "instances_expected|app=web". The dimensions cluster and pool are omitted. So is the application before the name of
// one of its own metrics. A missing key yields the zero [Series], which is empty. The methods of a series report
// whether it has enough points, so a missing window never counts as zero demand.
//
// # Meaning of an answer
//
// If the request omits a kind, the signal has no opinion on it, and the pool does not change for it. Zero means that
// none is needed. A signal without any opinion returns [ErrNoOpinion], and one whose data is too old returns
// [ErrStale]. Both may be wrapped in a sentence with the reason. Any other error, a panic and an invalid request reach
// the autoscaler as an error, never as "no opinion".
//
// The text of [Explain] is shown to operators as the reason why the pool was scaled.
//
// # Concurrency
//
// [Serve] calls Value from one goroutine per connection. Usually there is one connection. A swap, a standby or an
// abandoned evaluation adds a second one, so a signal with state must guard it. An Input belongs to the callee.
package signals
