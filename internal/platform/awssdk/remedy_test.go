package awssdk

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Package s3store tests the errors of S3 with its client.
func TestRemedy(t *testing.T) {
	for _, c := range []struct {
		code, message string
		status        int
		want          string
	}{
		{"RequestExpired", "Request has expired.", 400, "clock of this host differs from that of AWS, which shows 2026-11-28T07:45:04Z"},
		{"SignatureDoesNotMatch", "Signature expired: 20261128T070000Z is now earlier than 20261128T073004Z", 403, "clock of this host"},
		{"SignatureDoesNotMatch", "Signature not yet current: 20261128T090000Z is still later than ...", 403, "clock of this host"},
		{"InvalidSignatureException", "Signature expired: ...", 400, "clock of this host"},
		{"SignatureDoesNotMatch", "The request signature we calculated does not match", 403, ""},
		{"SignatureDoesNotMatch", "Credential should be scoped to a valid region, not 'x'.", 403, "correct the region"},
		{"ExpiredToken", "The security token included in the request is expired", 403, "renew the credentials"},
		{"InvalidClientTokenId", "", 403, "enabled the region"},
		{"UnauthorizedOperation", "You are not authorized", 403, ""},
		{"AccessDenied", "", 403, ""},
		{"Throttling", "Rate exceeded", 400, ""},
	} {
		err := fmt.Errorf("call: %w", &awshttp.ResponseError{ResponseError: &smithyhttp.ResponseError{
			Response: &smithyhttp.Response{Response: &http.Response{StatusCode: c.status, Header: http.Header{"Date": {"Sat, 28 Nov 2026 07:45:04 GMT"}}}},
			Err:      &smithy.GenericAPIError{Code: c.code, Message: c.message},
		}})
		if got := Remedy(err); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("Remedy(%v) = %q, want %q", err, got, c.want)
		}
	}
	if got, want := Remedy(&net.DNSError{Err: "no such host", Name: "monitoring.eu-wets-1.amazonaws.com", IsNotFound: true}), "check the region and the network"; got != want {
		t.Errorf("Remedy of an unknown host = %q, want %q", got, want)
	}
	if got := Remedy(fmt.Errorf("no response")); got != "" {
		t.Errorf("Remedy without a response = %q", got)
	}
}
