package awssdk

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
)

// explained is an error of the SDK with a text for people.
type explained struct {
	text string
	err  error
}

func (e *explained) Error() string { return e.text }

// Unwrap returns the error of the SDK.
func (e *explained) Unwrap() error { return e.err }

// Explain returns an error of the SDK with the attempt, the words of AWS, and what to do. right is the action of the
// request in a policy. The text is equal for equal causes: it has no id of a request.
func Explain(what, right string, err error) error {
	text, remedy := what+": "+words(err), Remedy(err)
	if api, ok := errors.AsType[smithy.APIError](err); ok && (strings.Contains(api.ErrorCode(), "AccessDenied") || strings.Contains(api.ErrorCode(), "Unauthorized")) {
		remedy = "allow the action " + right
	}
	if remedy != "" {
		text += "; " + remedy
	}
	return &explained{text, err}
}

// words returns the cause of an error without the wrapping of the SDK.
func words(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return Words(api)
	}
	if none, ok := errors.AsType[*CredentialsError](err); ok {
		return none.Error()
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Error()
	}
	answer, answered := errors.AsType[*awshttp.ResponseError](err)
	if page, ok := errors.AsType[*smithy.DeserializationError](err); ok && answered {
		return fmt.Sprintf("the answer with status %d is not one of AWS: %v", answer.HTTPStatusCode(), page.Err)
	}
	return err.Error()
}

// Words returns the code and the message of an error of AWS.
func Words(api smithy.APIError) string {
	if message := api.ErrorMessage(); message != "" {
		return api.ErrorCode() + ": " + message
	}
	return api.ErrorCode()
}

// Throttled reports whether AWS rejected a request because there were too many.
func Throttled(err error) bool {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		if _, known := retry.DefaultThrottleErrorCodes[api.ErrorCode()]; known {
			return true
		}
	}
	answer, ok := errors.AsType[*awshttp.ResponseError](err)
	return ok && answer.HTTPStatusCode() == http.StatusTooManyRequests
}
