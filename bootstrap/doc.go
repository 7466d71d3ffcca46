// Package bootstrap runs the processes of one pool: it fetches the releases that
// the pool pins, starts and supervises their signals, and starts the pool's
// autoscaler when each signal has answered or has been given up for now.
//
// A [Plan] says what should run. [Bootstrap.Run] makes it so until its context
// ends, and leaves nothing behind. [Bootstrap.Update] gives it another plan, of
// which only what differs is touched:
//
//   - A signal that is new is fetched and started, one that is gone is stopped
//     when the autoscaler has followed.
//   - A signal that differs is started beside the one that runs, on a socket of
//     its own. When it has answered the autoscaler on live windows the directory
//     names it, and when the autoscaler has followed the other one is stopped.
//     If it does not come to that, the one before goes on, and the swap is tried
//     again after a while.
//   - A shadow is started beside the pinned version and compared with it, tick by
//     tick, until its [Trial] is decided.
//
// # The stream
//
// The autoscaler is told where the signals are over an inherited socket, as lines
// of JSON: a [Directory] each time. It dies with that stream. The other way it
// sends a [Report] after each tick: how far it has followed, and what it heard.
// [Reader] is its end. Both ends take the other one's lines for hostile.
//
// An entry says what its process is asked with, [SignalPlan].Question: as long as
// a process waits for its successor, it is asked as it was before.
//
// # What hangs
//
// A signal that takes the connection and does not answer is started again after
// three such answers in a row, or after two that are half a minute apart: with a
// tick of ten minutes, after the second. A plugin is asked for its health besides.
//
// The autoscaler is given a revision at least once a minute. It is started again
// if it does not take one within 5 s, has followed none for five minutes, or has
// not ended 10 s after its stream. Until its process is gone nobody is stopped
// whom it may ask.
//
// # Addresses
//
// A signal answers at the socket of its namespace, name and app. Where that is
// taken it is told app~1 in place of its app, or the first after that which is
// free. Whether somebody listens, the kernel is asked over netlink (unix_diag):
// nobody but the autoscaler connects. Who listens has to belong to what was
// started, as [supervise.BelongsTo] has it.
//
// # Concurrency
//
// Run is called once. All other methods may be called at any time from any
// goroutine, before Run too; none of them waits for a process.
package bootstrap
