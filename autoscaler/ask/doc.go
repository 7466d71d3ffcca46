// Package ask evaluates the signals of one pool. A [Panel] holds them between the ticks of the
// autoscaler.
//
// The evaluation of a signal passes through these files, in this order:
//
//	panel.go       the signals that are due, at the same time
//	evaluation.go  one signal, in the tick or beside the ticks
//	round.go       the steps of one signal
//	window.go      windows of metrics -> series
//	request.go     series -> request
//	call.go        request -> the processes of the signal, until one responds
//	response.go    request -> response of one process
//	opinion.go     response -> api.Opinion
//	shadow.go      responses of candidates, compared after the tick has acted
//
// If the TimeLimit of a signal is longer than the wait of a tick, the signal is evaluated beside
// the ticks. It keeps its opinion until a later tick adopts the response.
//
// Between two ticks the panel follows the [Directory], so that a signal changes its process without
// a tick without an opinion. probe.go sends one request to a process that is to replace the process
// of a signal.
//
// A window that cannot be read, is empty, or has a too old newest point is never sent. The opinion
// is then failed or stale. Package decide combines the opinions into the target of the pool.
package ask
