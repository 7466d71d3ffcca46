package supervise

import "errors"

// Errors that callers branch on.
var (
	// ErrClosed: the launcher has ended, or is ending; it starts nothing more.
	// From Launcher.Start and Process.Run.
	ErrClosed = errors.New("launcher closed")

	// ErrSurvivors: some process did not go away after SIGKILL in time.
	// From Child.Stop, Process.Run, Launcher.Run and Keep.
	ErrSurvivors = errors.New("processes survive SIGKILL")

	// ErrFatal: the restart budget is spent. From Process.Ready.
	ErrFatal = errors.New("restart budget spent")

	// ErrStopped: supervision has ended. From Process.Ready.
	ErrStopped = errors.New("supervision ended")
)
