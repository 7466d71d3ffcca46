package s3store

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/internal/platform/awssdk"
)

// failedError is a failed call. Its text contains the operation, the cause without the SDK's wrapping, and the object: the
// URL is long, and a reader may cut the end of the text.
type failedError struct {
	op, url string
	class   error // a sentinel of package release, or nil
	cause   string
	err     error // the SDK's error
}

func (e *failedError) Error() string {
	if e.class == nil {
		return e.op + ": " + e.cause + " (" + e.url + ")"
	}
	return e.op + ": " + e.class.Error() + ": " + e.cause + " (" + e.url + ")"
}

// Unwrap returns the class and the SDK's error.
func (e *failedError) Unwrap() []error {
	if e.class == nil {
		return []error{e.err}
	}
	return []error{e.class, e.err}
}

func (b *Bucket) failure(op, key string, err error) error {
	e := &failedError{op: op, url: b.URL(key), err: err}
	e.cause, e.class = classify(err)
	if remedy := awssdk.Remedy(err); remedy != "" {
		e.cause += "; " + remedy
	}
	return e
}

// brokenBody classifies an error of reading an object. It is a network error, or the SDK's untyped checksum error.
func (b *Bucket) brokenBody(key string, err error) error {
	e := &failedError{op: "get", url: b.URL(key), err: err, class: release.ErrCorrupt, cause: err.Error()}
	if errors.Is(err, context.Canceled) {
		e.class = nil
	} else if isNetwork(err) {
		e.class, e.cause = release.ErrUnavailable, networkCause(err)
	}
	return e
}

// classify returns the cause of an SDK error as text, and the matching sentinel or nil.
func classify(err error) (cause string, class error) {
	if none, ok := errors.AsType[*awssdk.CredentialsError](err); ok {
		if none.Given {
			return none.Error(), release.ErrUnavailable
		}
		return none.Error(), classifyCredentials(none)
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		status := 0
		if response, ok := errors.AsType[*awshttp.ResponseError](err); ok {
			status = response.HTTPStatusCode()
		}
		cause = api.ErrorCode()
		if message := api.ErrorMessage(); message != "" {
			cause += ": " + message
		}
		return cause, classifyAnswer(api.ErrorCode(), status)
	}
	if errors.Is(err, context.Canceled) {
		return err.Error(), nil
	}
	if isNetwork(err) {
		return networkCause(err), release.ErrUnavailable
	}
	return err.Error(), nil
}

// classifyCredentials classifies an error of the credentials chain. The source (STS, an identity provider, the
// instance) is unavailable, or has no credentials.
func classifyCredentials(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	code, status := "", 0
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		code = api.ErrorCode()
	}
	if answer, ok := errors.AsType[statusError](err); ok {
		status = answer.HTTPStatusCode()
	}
	refused := status >= http.StatusBadRequest // it responded, maybe incompletely
	if classifyAnswer(code, status) == release.ErrUnavailable || !refused && isNetwork(err) {
		return release.ErrUnavailable
	}
	return release.ErrDenied
}

// statusError is implemented by the response errors of the SDK's clients, which have different types.
type statusError interface {
	error
	HTTPStatusCode() int // 0: no response
}

// classifyAnswer classifies a response of the store. It uses the code where that is more specific than the HTTP status.
func classifyAnswer(code string, status int) error {
	switch code {
	case "NoSuchKey":
		return release.ErrNotFound
	case "NoSuchBucket":
		return release.ErrNoBucket
	case "InvalidRange":
		return release.ErrCorrupt
	case "XAdminUserNotFound", "InvalidAccessKeyId", "ExpiredToken", "InvalidToken":
		return release.ErrDenied
	case "RequestTimeout", "ConditionalRequestConflict", "OperationAborted", "IDPCommunicationError",
		"RequestTimeTooSkewed": // until the clock is right, nothing is known about the credentials
		return release.ErrUnavailable
	}
	if _, throttled := retry.DefaultThrottleErrorCodes[code]; throttled {
		return release.ErrUnavailable
	}
	switch {
	case status == http.StatusPreconditionFailed:
		return release.ErrExists
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return release.ErrDenied
	case status == http.StatusNotFound:
		return release.ErrNotFound
	case status == http.StatusTooManyRequests, status >= http.StatusInternalServerError:
		return release.ErrUnavailable
	}
	return nil
}

// isNetwork reports whether an error is a network error or a deadline.
func isNetwork(err error) bool {
	found, ok := errors.AsType[net.Error](err)
	if _, bare := found.(syscall.Errno); bare { // a file's error: socket errors are wrapped
		ok = false
	}
	return ok || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) ||
		errors.Is(err, context.DeadlineExceeded)
}

// networkCause returns the innermost useful part of a network error.
func networkCause(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Error()
	}
	if request, ok := errors.AsType[*url.Error](err); ok {
		return request.Err.Error()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return context.DeadlineExceeded.Error()
	}
	return err.Error()
}
