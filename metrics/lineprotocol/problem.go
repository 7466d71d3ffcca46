package lineprotocol

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/weirkeeper/weirkeeper/metrics"
)

// errorCode is InfluxDB's name of a kind of error.
type errorCode string

const (
	codeInvalid      errorCode = "invalid"              // request or line invalid; nothing is written, and a retry does not help
	codeTooLarge     errorCode = "request too large"    // of the body
	codeUnauthorized errorCode = "unauthorized"         // no token, or a wrong one
	codeMethod       errorCode = "method not allowed"   // want POST
	codeTooMany      errorCode = "too many requests"    // in progress; retry
	CodePartial      errorCode = "unprocessable entity" // some samples are not written, and a retry does not help
	codeUnavailable  errorCode = "unavailable"          // the store failed; retry
)

// problem is the response to a refused or failed request.
type problem struct {
	status  int
	Code    errorCode `json:"code"`
	Message string    `json:"message"`
	Line    int       `json:"line,omitempty"` // from 1; 0: not about a line
}

// Error returns the message.
func (p *problem) Error() string { return p.Message }

func refuse(status int, code errorCode, format string, args ...any) error {
	return &problem{status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// maxMessage bounds a message, in bytes.
const maxMessage = 1024

// problemOf returns the response for an error.
func problemOf(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	p := &problem{Message: err.Error()}
	p.Message = p.Message[:min(len(p.Message), maxMessage)]
	line, isLine := errors.AsType[*lineError](err)
	switch {
	case isLine:
		p.status, p.Code, p.Line = http.StatusBadRequest, codeInvalid, line.line
	case errors.Is(err, metrics.ErrTooManySeries):
		p.status, p.Code = http.StatusUnprocessableEntity, CodePartial
	case errors.Is(err, errTooLarge):
		p.status, p.Code = http.StatusRequestEntityTooLarge, codeTooLarge
	case errors.Is(err, metrics.ErrMalformed), errors.Is(err, metrics.ErrFuture), errors.Is(err, metrics.ErrNotFinite):
		p.status, p.Code = http.StatusBadRequest, codeInvalid
	case errors.Is(err, context.DeadlineExceeded):
		p.status, p.Code, p.Message = http.StatusServiceUnavailable, codeUnavailable, "the metrics store does not answer in time"
	default:
		p.status, p.Code = http.StatusServiceUnavailable, codeUnavailable
	}
	return p
}

// answer writes the problem. If that fails, no further response is possible.
func (p *problem) answer(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(p.status)
	_ = json.NewEncoder(w).Encode(p)
}
