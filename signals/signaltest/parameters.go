package signaltest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	signalv1 "github.com/weirkeeper/weirkeeper/proto/signal/v1"
)

// Parameters starts the target's program as a plugin, and returns the names of the parameters that it declares, in order.
// declared is false if the program is not a plugin, or accepts any parameter. An error contains the first and the last
// lines that the program wrote to standard error.
func Parameters(ctx context.Context, t Target) (names []string, declared bool, err error) {
	if err := t.Validate(); err != nil {
		return nil, false, err
	}
	t = t.withDefaults()
	s, err := open(t, asPlugin(protocolVersion)...)
	if err != nil {
		return nil, false, err
	}
	defer s.stop(ctx)
	p, err := s.connect(ctx, t.Limits.Listen)
	if err != nil {
		return nil, false, s.explain(err)
	}
	p.close()
	line, _ := s.firstLine(ctx)
	if _, err := handshake(line); err != nil {
		return nil, false, nil // not a plugin; the check plugin_start reports other output
	}
	schema, err := t.schema(ctx, strings.Split(line, "|")[3])
	if err != nil {
		return nil, false, s.explain(fmt.Errorf("request the description of %s: %w", t.Path, err))
	}
	if schema.Additional == nil || *schema.Additional {
		return nil, false, nil
	}
	return slices.Sorted(maps.Keys(schema.Properties)), true, nil
}

// parameterSchema is the part of a JSON Schema that names the parameters.
type parameterSchema struct {
	Properties map[string]json.RawMessage `json:"properties"`
	Additional *bool                      `json:"additionalProperties"`
}

// schema requests the description at the plugin's address. A missing schema is empty.
func (t Target) schema(ctx context.Context, address string) (s parameterSchema, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.Limits.Answer)
	defer cancel()
	conn, err := grpc.NewClient("unix:"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return s, err
	}
	defer conn.Close()
	answer, err := signalv1.NewControlClient(conn).Describe(ctx, &signalv1.DescribeRequest{})
	if err != nil || len(answer.GetParametersSchema()) == 0 {
		return s, err
	}
	if err := json.Unmarshal(answer.GetParametersSchema(), &s); err != nil {
		return s, fmt.Errorf("schema of the parameters: %w", err)
	}
	return s, nil
}
