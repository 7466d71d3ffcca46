package control

import "errors"

// Errors that callers branch on.
var (
	// ErrHandshake: the first line on the process's standard output is not a valid handshake. It is final for the
	// session.
	ErrHandshake = errors.New("invalid handshake")

	// ErrProtocol: the process supports none of our control protocol versions. The error lists its version and ours. It
	// is final for the session.
	ErrProtocol = errors.New("no common version of the control protocol")

	// errDescription: the response to Describe exceeds a limit, or requires an unsupported wire version.
	errDescription = errors.New("invalid description")

	// errClosed: the session is closed.
	errClosed = errors.New("session closed")
)
