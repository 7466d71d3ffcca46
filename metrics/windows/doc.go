// Package windows keeps the windows that were asked for, so that a store is read
// for what is new only: a [Cache] is a metrics.Store in front of another one.
//
// A window is known by what it asks for and by its length. When it is asked for
// again, the store is asked from [Config].Overlap before the end of the last
// question on, for points may come late; what was read before is kept, and what
// the window has left behind is dropped. The whole window is read when its
// beginning moves back, when a series is new or has lost points, and after
// Config.Full, which finds points that came later than the overlap. But for such
// points, an answer is what the store would have answered itself.
//
// The series of an answer carry a lineage: two answers of one series have the
// same one if the newer was made from the older by adding points behind the last
// and taking points away at the front. A late point, a changed value, a series
// that was gone begin a new one.
//
// An error of the store is an error of the window, and the next question reads
// what was missed.
//
// # Concurrency
//
// A Cache may be used concurrently. Questions for one window wait for each other,
// those for different windows do not. The points of an answer lie in memory that
// later answers share: they are never changed, and what comes later is written
// behind them.
package windows
