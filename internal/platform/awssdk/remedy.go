package awssdk

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
)

// Remedy returns what to do about an error of the SDK, if the text of AWS does not say it or is misleading; else it is
// empty.
func Remedy(err error) string {
	code, message := "", ""
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		code, message = api.ErrorCode(), api.ErrorMessage()
	}
	status, header := 0, http.Header(nil)
	if response, ok := errors.AsType[*awshttp.ResponseError](err); ok && response.HTTPResponse() != nil {
		status, header = response.HTTPStatusCode(), response.HTTPResponse().Header
	}
	region := header.Get("X-Amz-Bucket-Region")
	switch {
	case skewed(code, message):
		shows := ""
		if date, err := http.ParseTime(header.Get("Date")); err == nil {
			shows = date.UTC().Format(", which shows 2006-01-02T15:04:05Z")
		}
		return fmt.Sprintf("the clock of this host differs from that of AWS%s: synchronize it (chrony, or systemd-timesyncd)", shows)
	case status == http.StatusMovedPermanently, code == "AuthorizationHeaderMalformed", code == "BadRequest" && region != "":
		if region != "" {
			return fmt.Sprintf("the bucket is in region %.40q: set aws.region of weir.yaml to it", region)
		}
		return "the bucket is in another region: correct aws.region of weir.yaml"
	case code == "ExpiredToken" || code == "ExpiredTokenException":
		return "renew the credentials; a changed file is read with the next request"
	case code == "InvalidClientTokenId" || code == "UnrecognizedClientException":
		return "check the access key, and that the account has enabled the region"
	case code == "SignatureDoesNotMatch" && strings.Contains(message, "valid region"):
		return "the server is in another region: correct the region"
	case unreadable(err):
		return "check the endpoint, and its http or https"
	case unknownHost(err):
		return "check the region and the network"
	case status == http.StatusForbidden && readsObject(err) && (code == "AccessDenied" || code == "Forbidden" || code == ""):
		return "without the right s3:ListBucket, S3 gives this response for a missing object too"
	}
	return ""
}

// skewed reports whether AWS rejected the time of a request: S3 and EC2 by a code, query APIs by the text about the
// signature.
func skewed(code, message string) bool {
	switch code {
	case "RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture":
		return true
	case "SignatureDoesNotMatch", "InvalidSignatureException":
		return strings.HasPrefix(message, "Signature expired") || strings.HasPrefix(message, "Signature not yet current")
	}
	return false
}

// unreadable reports whether an answer is not one of AWS, such as a page of a login.
func unreadable(err error) bool {
	_, ok := errors.AsType[*smithy.DeserializationError](err)
	return ok
}

// unknownHost reports whether the name of the server does not exist, as that of a region that does not.
func unknownHost(err error) bool {
	lookup, ok := errors.AsType[*net.DNSError](err)
	return ok && lookup.IsNotFound
}

// readsObject reports whether the failed operation reads one object of S3.
func readsObject(err error) bool {
	op, ok := errors.AsType[*smithy.OperationError](err)
	return ok && op.ServiceID == "S3" && (op.OperationName == "GetObject" || op.OperationName == "HeadObject")
}
