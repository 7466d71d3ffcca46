package aws

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"

	"github.com/weirkeeper/weirkeeper/internal/platform/awssdk"
	"github.com/weirkeeper/weirkeeper/pools"
)

// call is the state of one call of the SDK. If a context ends while the SDK waits to retry, the SDK
// drops the error of AWS. It also does not report whether it sent a request.
type call struct {
	sent bool
	last error // why an attempt waits; nil: it does not wait
}

type callKey struct{}

func callOf(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return new(call)
}

// follow adds the reason of a wait to the error of a call whose context ended.
func follow(stack *middleware.Stack) error {
	return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("Follow", func(
		ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler,
	) (middleware.InitializeOutput, middleware.Metadata, error) {
		var c call
		out, metadata, err := next.HandleInitialize(context.WithValue(ctx, callKey{}, &c), in)
		if err != nil && ctx.Err() != nil {
			err = c.explain(err)
		}
		return out, metadata, err
	}), middleware.Before)
}

func (c *call) explain(err error) error {
	switch {
	case c.last != nil:
		return &waitError{last: c.last, err: err}
	case !c.sent:
		return &unsentError{err}
	}
	return err
}

// retryer is the SDK's adaptive retries. It records why a call waits.
type retryer struct{ *retry.AdaptiveMode }

// GetRetryToken implements aws.Retryer.
func (r retryer) GetRetryToken(ctx context.Context, last error) (func(error) error, error) {
	callOf(ctx).last = last
	return r.AdaptiveMode.GetRetryToken(ctx, last)
}

// attemptEvery is how often a waiting call requests an attempt. The SDK's own wait ends when it
// computes that a token is due. It never ends if the clock advances by less than a rounding error.
const attemptEvery = 10 * time.Millisecond

// GetAttemptToken implements aws.RetryerV2. It waits only after AWS throttled this call or another
// one.
func (r retryer) GetAttemptToken(ctx context.Context) (func(error) error, error) {
	c := callOf(ctx)
	for {
		release, err := r.AdaptiveMode.GetAttemptToken(ctx)
		if err == nil {
			c.sent, c.last = true, nil
			return release, nil
		}
		select {
		case <-time.After(attemptEvery):
		case <-ctx.Done():
			c.last = cmp.Or(c.last, pools.ErrThrottled)
			return nil, context.Cause(ctx)
		}
	}
}

// waitError is a call whose context ended while it waited to retry.
type waitError struct {
	last error // latest error of AWS; pools.ErrThrottled: of another call
	err  error
}

func (e *waitError) Error() string {
	text := "waiting to retry"
	if e.throttled() {
		text += ", because AWS throttles"
	}
	if api, ok := errors.AsType[smithy.APIError](e.last); ok {
		return text + ": " + awssdk.Words(api)
	}
	if e.throttled() {
		return text
	}
	return text + ": " + e.last.Error()
}

// Unwrap returns the reason of the wait, and the reason of its end.
func (e *waitError) Unwrap() []error { return []error{e.last, e.err} }

func (e *waitError) throttled() bool {
	if api, ok := errors.AsType[smithy.APIError](e.last); ok {
		return classify(api.ErrorCode(), status(e.last)) == pools.ErrThrottled
	}
	return errors.Is(e.last, pools.ErrThrottled)
}

// unsentError is a request that AWS cannot have received.
type unsentError struct{ err error }

func (e *unsentError) Error() string { return "not sent: " + e.err.Error() }

// Unwrap returns why it was not sent.
func (e *unsentError) Unwrap() error { return e.err }
