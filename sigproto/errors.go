package sigproto

import "errors"

var (
	// ErrRefused: the signal answered 0x02. After a length it takes no body of
	// that size; after a body it has no answer to it.
	ErrRefused = errors.New("the signal refused (0x02)")
	// ErrProtocol: a byte came that version 1 does not allow at this place.
	ErrProtocol = errors.New("protocol error")
	// ErrTooLarge: a message is larger than its limit.
	ErrTooLarge = errors.New("message is too large")
	// ErrBody: a body came whole and could not be used. It has been refused, and
	// the connection is still good.
	ErrBody = errors.New("body is not good")
)

// Phase is a step of an evaluation, in the order of this list.
type Phase string

const (
	PhaseEncode    Phase = "encode"     // making the body
	PhaseConnect   Phase = "connect"    // reaching the signal, and checking who it is
	PhaseHello     Phase = "hello"      // sending the hello, until the signal has read it
	PhaseLengthACK Phase = "length ack" // sending the length, waiting for its ACK
	PhaseDataACK   Phase = "data ack"   // sending the body, waiting for its ACK
	PhaseResponse  Phase = "response"   // reading the response
)

// Error is what [Client.Evaluate] returns: where an evaluation ended, and why.
type Error struct {
	Address string
	Phase   Phase
	Err     error
}

func (e *Error) Error() string {
	return "signal " + e.Address + ": " + string(e.Phase) + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// FieldError is a value of a message that cannot be used.
type FieldError struct {
	Field string // its place, as "Resources.cpus"
	Err   error
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *FieldError) Unwrap() error { return e.Err }
