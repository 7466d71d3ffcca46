package lineprotocol

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/weirkeeper/weirkeeper/metrics"
)

// Code is InfluxDB's word for a kind of error.
type Code string

const (
	CodeInvalid      Code = "invalid"              // the request or a line; nothing is written, and to send it again is of no use
	CodeTooLarge     Code = "request too large"    // the body
	CodeUnauthorized Code = "unauthorized"         // no token, or another one
	CodeMethod       Code = "method not allowed"   // want POST
	CodeTooMany      Code = "too many requests"    // at a time: send it again
	CodePartial      Code = "unprocessable entity" // a part is not written, and to send it again is of no use
	CodeUnavailable  Code = "unavailable"          // the store did not take it: send it again
)

// problem is what a request is answered with that was not written.
type problem struct {
	status  int
	Code    Code   `json:"code"`
	Message string `json:"message"`
	Line    int    `json:"line,omitempty"` // from 1; 0: no line is to blame
}

// Error returns the message.
func (p *problem) Error() string { return p.Message }

func refuse(status int, code Code, format string, args ...any) error {
	return &problem{status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// maxMessage bounds what is told, in bytes.
const maxMessage = 1024

// problemOf says how to answer an error of any part.
func problemOf(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	p := &problem{Message: err.Error()}
	p.Message = p.Message[:min(len(p.Message), maxMessage)]
	line, isLine := errors.AsType[*lineError](err)
	switch {
	case isLine:
		p.status, p.Code, p.Line = http.StatusBadRequest, CodeInvalid, line.line
	case errors.Is(err, metrics.ErrTooManySeries):
		p.status, p.Code = http.StatusUnprocessableEntity, CodePartial
	case errors.Is(err, errTooLarge):
		p.status, p.Code = http.StatusRequestEntityTooLarge, CodeTooLarge
	case errors.Is(err, metrics.ErrMalformed), errors.Is(err, metrics.ErrFuture), errors.Is(err, metrics.ErrNotFinite):
		p.status, p.Code = http.StatusBadRequest, CodeInvalid
	case errors.Is(err, context.DeadlineExceeded):
		p.status, p.Code, p.Message = http.StatusServiceUnavailable, CodeUnavailable, "the metrics store does not answer in time"
	default:
		p.status, p.Code = http.StatusServiceUnavailable, CodeUnavailable
	}
	return p
}

// answer writes the problem. Nobody is left to tell if that fails.
func (p *problem) answer(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(p.status)
	_ = json.NewEncoder(w).Encode(p)
}
