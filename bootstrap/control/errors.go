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

	// ErrDescription: the response to Describe exceeds a limit, or requires an unsupported wire version.
	ErrDescription = errors.New("invalid description")

	// ErrClosed: the session is closed.
	ErrClosed = errors.New("session closed")
)
