// Package bootstrap runs the processes of one pool: it fetches the releases that
// the pool pins, starts and supervises their signals, and starts the pool's
// autoscaler when each signal has answered or has been given up for now.
//
// A [Plan] says what should run. [Bootstrap.Run] makes it so until its context
// ends, and leaves nothing behind. The autoscaler is told where the signals are
// over the stream of directory.go, and dies with it. [Bootstrap.Status] may be
// called at any time from any goroutine.
package bootstrap
