// Package plugin makes a signal a go-plugin, so that the bootstrap that starts it
// knows what it is, what it needs and whether it is well. The main function of a
// signal's program is one line:
//
//	func main() { plugin.Main(requests{}) }
//
// Started by bootstrap, which sets a cookie in the environment, the program
// speaks the handshake of go-plugin and serves signal.v1.Control beside the
// socket on which it answers autoscalers. Started by hand, with NAMESPACE NAME
// APP as arguments, the same program is a plain signal, as with [signals.Main].
//
// A signal that has more to tell is a [Describer]:
//
//	func (requests) About() plugin.About {
//		return plugin.About{
//			Metrics:    []plugin.Metric{{Name: "requests", Type: plugin.AppMetrics, Range: 20 * time.Minute}},
//			Parameters: []plugin.Parameter{{Name: "requests_per_cpu", Type: plugin.Number, Default: 100}},
//		}
//	}
//
// # Output
//
// What the signal logs with log/slog or log reaches bootstrap's log with its
// level and attributes. What it prints reaches that log as lines, but only after
// the handshake: standard output must be silent until Main is called.
//
// # Concurrency
//
// Main or Serve is called once. About is called once, before anything else.
package plugin
