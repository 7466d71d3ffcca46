package awssdk

import (
	"fmt"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// maxAnswer bounds a response, in bytes.
const maxAnswer = 64 << 20

// Bounded is a client that rejects responses that are larger than any of AWS.
type Bounded struct{ Client aws.HTTPClient }

// Do implements aws.HTTPClient.
func (b Bounded) Do(r *http.Request) (*http.Response, error) {
	answer, err := b.Client.Do(r)
	if err == nil && answer.Body != nil {
		answer.Body = &boundedBody{ReadCloser: answer.Body, left: maxAnswer}
	}
	return answer, err
}

type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the response exceeds %d bytes", maxAnswer)
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
