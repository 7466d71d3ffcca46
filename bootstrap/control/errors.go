package control

import "errors"

// Errors that callers branch on.
var (
	// ErrHandshake: what the process wrote first on its standard output is no
	// handshake of ours. It is final for the session.
	ErrHandshake = errors.New("handshake is not good")

	// ErrProtocol: the process speaks none of our versions of the control plane;
	// the error names its and ours. It is final for the session.
	ErrProtocol = errors.New("no common version of the control protocol")

	// ErrDescription: the answer to Describe breaks a limit, or offers a wire that
	// we do not speak.
	ErrDescription = errors.New("description is not good")

	// ErrClosed: the session is closed.
	ErrClosed = errors.New("session closed")
)
