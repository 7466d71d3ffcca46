package sigproto

import "errors"

var (
	// ErrRefused: the signal answered 0x02. After a length, it does not accept a body of that size. After a body, it
	// has no answer.
	ErrRefused = errors.New("the signal refused (0x02)")
	// ErrProtocol: a byte is not allowed at this place in version 1.
	ErrProtocol = errors.New("protocol error")
	// ErrTooLarge: a message exceeds its limit.
	ErrTooLarge = errors.New("message is too large")
	// ErrBody: a body is complete and invalid. It was refused, and the connection is still usable.
	ErrBody = errors.New("invalid body")
)

// Phase is a step of an evaluation, in this order.
type Phase string

const (
	PhaseEncode    Phase = "encode"     // encoding the body
	PhaseConnect   Phase = "connect"    // connect: also checks the listening process
	PhaseHello     Phase = "hello"      // sending the hello until the signal has read it
	PhaseLengthACK Phase = "length ack" // length: send it and wait for its ACK
	PhaseDataACK   Phase = "data ack"   // sending the body and waiting for its ACK
	PhaseResponse  Phase = "response"   // reading the response
)

// Error is the error of [Client.Evaluate]: the phase in which the evaluation failed, and the cause.
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

// FieldError is an invalid value in a message.
type FieldError struct {
	Field string // for example "Resources.cpus"
	Err   error
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *FieldError) Unwrap() error { return e.Err }
