package supervise

import "errors"

// Errors that callers branch on.
var (
	// errClosed: the launcher has ended or is ending, and starts no more children. Launcher.Start and Process.Run
	// return it.
	errClosed = errors.New("launcher closed")

	// ErrSurvivors: a process did not end in time after SIGKILL. Child.Stop, Process.Run, Launcher.Run and Keep return
	// it.
	ErrSurvivors = errors.New("processes survive SIGKILL")

	// errFatal: the restart budget is spent. Process.Ready returns it.
	errFatal = errors.New("restart budget spent")

	// errStopped: supervision has ended. Process.Ready returns it.
	errStopped = errors.New("supervision ended")
)
