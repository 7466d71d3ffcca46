package supervise

import "errors"

// Errors that callers branch on.
var (
	// ErrClosed: the launcher has ended or is ending, and starts no more children. Launcher.Start and Process.Run
	// return it.
	ErrClosed = errors.New("launcher closed")

	// ErrSurvivors: a process did not end in time after SIGKILL. Child.Stop, Process.Run, Launcher.Run and Keep return
	// it.
	ErrSurvivors = errors.New("processes survive SIGKILL")

	// ErrFatal: the restart budget is spent. Process.Ready returns it.
	ErrFatal = errors.New("restart budget spent")

	// ErrStopped: supervision has ended. Process.Ready returns it.
	ErrStopped = errors.New("supervision ended")
)
