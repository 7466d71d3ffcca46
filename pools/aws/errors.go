package aws

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"github.com/weirkeeper/weirkeeper/internal/platform/awssdk"
	"github.com/weirkeeper/weirkeeper/pools"
)

var (
	// errNothingFound: a configured selector finds no group.
	errNothingFound = errors.New("no group found")
	// errTwoPools: two pools claim the same group.
	errTwoPools = errors.New("group is in two pools")
)

const maxCause = 600 // bytes of AWS's message

// callError is a failed request. Its text is for people: the action as in a policy, the resource,
// and the cause without the SDK's wrapping.
type callError struct {
	action, resource string
	class            error // a sentinel of package pools, or nil
	cause            string
	err              error
}

func (e *callError) Error() string {
	text := e.action + " on " + e.resource + ": "
	if e.class != nil {
		text += e.class.Error() + ": "
	}
	return text + e.cause
}

// Unwrap returns the class and the SDK's error.
func (e *callError) Unwrap() []error {
	if e.class == nil {
		return []error{e.err}
	}
	return []error{e.class, e.err}
}

// failure adds name and class to the error of a call. For nil it returns nil.
func failure(action, resource string, err error) error {
	if err == nil {
		return nil
	}
	e := &callError{action: action, resource: resource, err: err, cause: err.Error()}
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		e.class, e.cause = classify(api.ErrorCode(), status(err)), awssdk.Words(api)
	}
	if none, ok := errors.AsType[*awssdk.CredentialsError](err); ok {
		e.cause = none.Error()
	} else if waited, ok := errors.AsType[*waitError](err); ok {
		if e.cause = waited.Error(); waited.throttled() {
			e.class = pools.ErrThrottled
		}
	} else if unsent, ok := errors.AsType[*unsentError](err); ok {
		e.cause = unsent.Error()
	} else if op, ok := errors.AsType[*net.OpError](err); ok {
		e.cause = op.Error()
	} else if errors.Is(err, context.DeadlineExceeded) {
		e.cause = context.DeadlineExceeded.Error()
	}
	e.cause = e.cause[:min(len(e.cause), maxCause)]
	if remedy := awssdk.Remedy(err); remedy != "" {
		e.cause += "; " + remedy
	}
	return e
}

func status(err error) int {
	if answer, ok := errors.AsType[*awshttp.ResponseError](err); ok {
		return answer.HTTPStatusCode()
	}
	return 0
}

// errInProgress: an earlier change of the resource is in progress, and over within seconds. It is a kind of pools.ErrThrottled.
var errInProgress error = inProgressError{}

type inProgressError struct{}

func (inProgressError) Error() string { return "an earlier change is in progress" }
func (inProgressError) Unwrap() error { return pools.ErrThrottled }

// Codes of such a change.
const (
	inProgress   = "ScalingActivityInProgress" // of an Auto Scaling group
	unmodifiable = "FleetNotInModifiableState" // of a Spot Fleet request
)

// Pages of AWS that define error codes.
const (
	pageEC2     = "https://docs.aws.amazon.com/ec2/latest/devguide/errors-overview.html"
	pageScaling = "https://docs.aws.amazon.com/autoscaling/ec2/APIReference/CommonErrors.html, and the errors of each action"
	pageS3      = "https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html"
	pageCommon  = "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/CommonErrors.html"
)

// codeClass is what the error codes of a page mean.
type codeClass struct {
	class error
	page  string
	codes []string
}

// codeClasses returns the classes of all codes that have one, beside those of throttling, which are retry.DefaultThrottleErrorCodes.
func codeClasses() []codeClass {
	return []codeClass{
		{pools.ErrShort, pageEC2, []string{
			"InsufficientInstanceCapacity", "InsufficientCapacity", "InsufficientHostCapacity", "InsufficientReservedInstanceCapacity",
			"InsufficientCapacityOnHost", "InsufficientVolumeCapacity", "InsufficientAddressCapacity", "InsufficientFreeAddressesInSubnet",
			"UnfulfillableCapacity", "SpotMaxPriceTooLow", "InstanceLimitExceeded", "VcpuLimitExceeded", "VolumeLimitExceeded",
			"ResourceLimitExceeded", "MaxSpotInstanceCountExceeded", "MaxSpotFleetRequestCountExceeded",
		}},
		{pools.ErrShort, pageScaling, []string{"LimitExceeded"}},
		{pools.ErrRefused, pageEC2, []string{
			"UnauthorizedOperation", "AuthFailure", "OptInRequired", "Blocked", "OperationNotPermitted", "PendingVerification",
			"UnsupportedOperation", "InvalidClientTokenId", "MissingAuthenticationToken", "IncompleteSignature",
		}},
		{pools.ErrRefused, pageS3, []string{"AccessDenied", "ExpiredToken", "SignatureDoesNotMatch", "InvalidAccessKeyId"}},
		{pools.ErrRefused, pageCommon, []string{"AccessDeniedException", "ExpiredTokenException", "UnrecognizedClientException", "NotAuthorized"}},
		{errInProgress, pageEC2, []string{
			unmodifiable, "IncorrectState", "IncorrectInstanceState", "IncorrectSpotRequestState", "ConcurrentTagAccess",
		}},
		{errInProgress, pageScaling, []string{inProgress, "ResourceContention", "ResourceInUse", "ServiceLinkedRoleFailure"}},
	}
}

// classify returns the sentinel for an error code of AWS. For an unknown code it returns nil, and
// the error has no class.
func classify(code string, status int) error {
	for _, c := range codeClasses() {
		if slices.Contains(c.codes, code) {
			return c.class
		}
	}
	if _, known := retry.DefaultThrottleErrorCodes[code]; known || status == http.StatusTooManyRequests {
		return pools.ErrThrottled
	}
	if status == http.StatusForbidden || status == http.StatusUnauthorized {
		return pools.ErrRefused
	}
	return nil
}

// mayHaveSucceeded reports whether a failed call may have been carried out: AWS did not reject it, and may
// have received it. AWS also lowers the desired capacity of a group before it reports that the
// instance is already terminating.
func mayHaveSucceeded(err error) bool {
	if api, ok := errors.AsType[smithy.APIError](err); ok && api.ErrorCode() == inProgress {
		return true
	}
	if _, unsent := errors.AsType[*unsentError](err); unsent {
		return false
	}
	if _, none := errors.AsType[*awssdk.CredentialsError](err); none || errors.Is(err, pools.ErrThrottled) {
		return false
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return false
	}
	code := status(err)
	return code < http.StatusBadRequest || code >= http.StatusInternalServerError
}
