package aws

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// answerStart is how many bytes of a response contain its first element.
const answerStart = 512

// elementOf returns the first element of the answer to a call; empty: any.
func elementOf(call string) string {
	switch call {
	case "ListObjectsV2":
		return "<ListBucketResult"
	case "GetObject":
		return ""
	}
	return "<" + call + "Response"
}

// answers rejects a response with a good status that does not answer its call, such as an empty body or the page of a proxy. The SDK
// would read it as an empty list. Not for SQS, whose answers are JSON.
func answers(stack *middleware.Stack) error {
	return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("Answers", func(
		ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler,
	) (middleware.DeserializeOutput, middleware.Metadata, error) {
		out, metadata, err := next.HandleDeserialize(ctx, in)
		response, ok := out.RawResponse.(*smithyhttp.Response)
		if err != nil || !ok || response.StatusCode/100 != 2 {
			return out, metadata, err
		}
		element := elementOf(awsmiddleware.GetOperationName(ctx))
		if element == "" {
			return out, metadata, nil
		}
		body := bufio.NewReaderSize(response.Body, answerStart)
		start, _ := body.Peek(answerStart) // the SDK gets the error too
		if !bytes.Contains(start, []byte(element)) {
			return out, metadata, fmt.Errorf("the response does not answer the call: want %s> in it, not %.60q", element, start)
		}
		response.Body = struct {
			io.Reader
			io.Closer
		}{body, response.Body}
		return out, metadata, nil
	}), middleware.After)
}
