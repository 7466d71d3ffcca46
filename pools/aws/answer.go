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

// answers rejects a response with a good status that is no answer to its call, such as an empty body or the page of a proxy. The SDK
// would read it as an empty list. An answer of EC2, Auto Scaling or Elastic Load Balancing has the element <CALLResponse>.
func answers(stack *middleware.Stack) error {
	return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("Answers", func(
		ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler,
	) (middleware.DeserializeOutput, middleware.Metadata, error) {
		out, metadata, err := next.HandleDeserialize(ctx, in)
		response, ok := out.RawResponse.(*smithyhttp.Response)
		if err != nil || !ok || response.StatusCode/100 != 2 {
			return out, metadata, err
		}
		body := bufio.NewReaderSize(response.Body, answerStart)
		start, _ := body.Peek(answerStart) // the SDK gets the error too
		element := "<" + awsmiddleware.GetOperationName(ctx) + "Response"
		if !bytes.Contains(start, []byte(element)) {
			return out, metadata, fmt.Errorf("the response is no answer: want %s> in it, not %.60q", element, start)
		}
		response.Body = struct {
			io.Reader
			io.Closer
		}{body, response.Body}
		return out, metadata, nil
	}), middleware.After)
}
