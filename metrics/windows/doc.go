// Package windows keeps the windows that were asked for, so that a store is read
// for what is new only: a [Cache] is a metrics.Store in front of another one.
//
// A window is known by what it asks for and by its length. When it is asked for
// again, what was read before is kept, and what the window has left behind is
// dropped. Points may come late, so the store is asked again for the last
// [Config].Overlap before the last point of the series that is the furthest
// behind, or before the end of the last question if none is. So a series whose
// points come in order is never short of one, however late they are; one that has
// ended has the window read from there on, until it has left it. Who was away may
// bring what is new before what was missed: a gap of more than the overlap behind
// what was kept, or before the first point of a series that is new, is read again
// for Config.Full.
//
// The whole window is read when its beginning moves back, when it is empty, when a
// series is new or has lost points, and after Config.Full, which finds what came
// in another way: points further behind the last one of their series than the
// overlap, and new series that are later than the others. But for such points, an
// answer is what the store would have answered itself.
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
