// Package windows caches windows of metrics, so that only new points are read from a
// store. A [Cache] is a metrics.Store in front of another one.
//
// # Reading
//
// A cached window is identified by its query and its length. A repeated query removes
// the points that the window has left and reads new points. Points may arrive late, so
// the read starts [Config].Overlap before the end of the last query. If the last point of
// a series is older than that, the read starts the overlap before that point. So a
// series with points in order is always complete, however late the points are. If a
// series has ended, the window is read from its last point on, until the point has left
// the window.
//
// After an outage a writer may write the newest points before the missed ones. A gap of
// more than the overlap behind stored points, or before the first point of a new series,
// is read again for Config.Full.
//
// The whole window is read in these cases: its beginning moves back, it is empty, a series
// is new or has lost points, or Config.Full has passed. The last case finds points that are
// further behind their series than the overlap, and new series that are later than the
// others. Apart from such points, an answer equals the store's own answer.
//
// An error of the store is an error of the window. The next query reads the missing parts.
//
// # Lineage
//
// The series of an answer have a lineage. Two answers of one series have the same lineage
// only if the newer was made from the older: points added at the end, points removed at the
// front. A late point, a changed value, or a series that was missing starts a new lineage.
//
// # Concurrency
//
// A Cache is safe for concurrent use. Queries for one window wait for each other; queries
// for different windows do not. Answers share memory with later answers. The points of an
// answer never change; later points are appended behind them.
package windows
