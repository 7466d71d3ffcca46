// Package metrics has the types of measured values. A [Series] is a named list of points. A [Query] selects the
// window of some series. A [Store] stores series. The implementations are in the packages below; all of them pass the
// suite of package metricstest.
//
// Times are whole unix seconds on the way to a signal, as the signal protocol requires. Series are columns instead of
// pairs, so that a window travels from the store to the socket without a copy of each point.
//
// A system metric (cpus_allocated, ...) has the dimensions cluster and pool. The name of an application metric is
// "APP,NAME". Instance counts have cluster, pool and app; the sum over the pool has no app.
package metrics
