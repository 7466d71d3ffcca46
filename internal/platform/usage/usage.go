// Package usage marks errors that the user of a command has caused: a wrong flag, argument or file.
//
// [New] marks an error, and errors.AsType finds the mark. A file error of package inputfile counts without it. A command that ends with a marked error exits with code 2,
// and the HTTP API responds with status 400. The package has no state. Its functions may run concurrently.
package usage

// Error is a mistake in a command line or a file. The exit code is 2.
type Error struct{ Err error }

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// New marks err as an Error.
func New(err error) error { return &Error{err} }
