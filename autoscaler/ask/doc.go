// Package ask evaluates the signals of one pool: it reads the windows of metrics that
// a signal gets, sends them as a request to the signal's process, and turns the
// response into an opinion, which package decide combines into the pool's target.
package ask
