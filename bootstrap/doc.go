// Package bootstrap runs the processes of one pool. It fetches the releases that the pool pins, and starts and
// supervises their signals. It starts the pool's autoscaler when each signal is ready or its timeout is over.
//
// A [Plan] defines what should run. [Bootstrap.Run] runs it until its context ends, and leaves no process behind.
// [Bootstrap.Update] changes the plan. Only processes that differ change:
//
//   - A new signal is fetched and started. A removed signal is stopped after the autoscaler has followed.
//   - A changed signal is started beside the running one, on its own socket. When it has answered the autoscaler on live
//     windows, the directory lists it. When the autoscaler has followed, the previous process is stopped. If the new
//     process fails, the previous one continues, and the swap is retried later.
//   - A shadow is started beside the pinned version. Each tick compares the two, until its [Trial] is decided.
//
// # The stream
//
// Bootstrap sends the signals' endpoints to the autoscaler over an inherited socket. Each [Directory] is one line of
// JSON. When the stream ends, the autoscaler ends. In the other direction, the autoscaler sends a [Report] after each
// tick: the revision that it follows, and the answers that it received. [Reader] is the autoscaler's end. Both ends
// treat the other end's lines as untrusted.
//
// An entry contains the request configuration of its process, [SignalPlan].RequestConfig. While a process waits for its
// successor, that configuration does not change.
//
// # Hung processes
//
// A signal that accepts the connection and does not answer is restarted after three such requests in a row, or after
// two that are half a minute apart. A plugin also has health checks.
//
// The autoscaler receives a revision at least once a minute. It is restarted if it does not read one within 5 s,
// follows none for five minutes, or has not ended 10 s after its stream. Processes to which it may send requests run
// until its own process has ended.
//
// # Addresses
//
// A signal listens on the socket of its namespace, name and app. If that one is in use, it gets app~1 in place of its
// app, or the first following number that is free. Bootstrap finds listeners through netlink (unix_diag), so that only
// the autoscaler connects. The listener must belong to the started process, as [supervise.BelongsTo] defines.
//
// # Concurrency
//
// Run is called once. All other methods may be called concurrently at any time, also before Run. None waits for a
// process.
package bootstrap
