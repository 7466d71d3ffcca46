// Package metrics is the vocabulary of measured values: a [Series] is a named
// line of points, a [Query] asks for the window of some series, a [Store] keeps
// them. Implementations live in the packages below; all of them pass the suite
// of package metricstest.
//
// Times are whole unix seconds on the way to a signal, as its wire wants them.
// Series are columns, not pairs, so that a window travels from the store to the
// socket without a copy for each point.
//
// Names and dimensions. A system metric (cpus_allocated, ...) carries the
// dimensions cluster and pool. An application metric is stored as "APP,NAME".
// Instance counts carry cluster, pool and, but for the sum over the pool, app.
package metrics
