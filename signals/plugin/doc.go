// Package plugin makes a signal a go-plugin, so that bootstrap can read its description and its health. The main
// function of a signal's program is one line:
//
//	func main() { plugin.Main(requests{}) }
//
// Bootstrap starts the program with a cookie in its environment. Then the program uses the handshake of go-plugin and
// serves signal.v1.Control beside its own socket. If a user starts it with the arguments NAMESPACE NAME APP, it is a
// plain signal, as with [signals.Main].
//
// A signal with requirements or parameters is a [Describer]:
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
// Records of log/slog or log appear in bootstrap's log with their level and attributes. Printed text appears there as
// lines, but only after the handshake: the program must not write to standard output before it calls Main.
//
// # Concurrency
//
// Main or Serve is called once. About is called once, before anything else.
package plugin
