// Package prometheus reads windows from a server with the HTTP API of Prometheus: Prometheus, Thanos, Mimir, Cortex or
// VictoriaMetrics. A window is the answer of /api/v1/query_range at multiples of the step.
//
// # What is unknown
//
// An answer with warnings is partial, so the window is unknown; so is one with too many series or bytes, one that is no
// answer of the API, such as a page of a login, and one from a server whose clock differs from this host's. A value that
// is NaN or infinite is no point.
//
// # Variables
//
// $app, $cluster and $pool stand within quotes, as in {app="$app"}. Their values are escaped for the quotes, and for a
// regular expression if the operator before the quotes is =~ or !~.
package prometheus
