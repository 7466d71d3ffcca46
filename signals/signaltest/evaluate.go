package signaltest

import (
	"context"
	"fmt"

	"github.com/weirkeeper/weirkeeper/sigproto"
)

// Evaluate starts the target's program, sends one request as the autoscaler does, and ends the program. An error
// contains the first and the last lines that the program wrote to standard error.
func Evaluate(ctx context.Context, t Target, e sigproto.Evaluation, hello sigproto.Hello) (sigproto.Response, error) {
	if err := t.Validate(); err != nil {
		return sigproto.Response{}, err
	}
	t = t.withDefaults()
	t.Hello = hello
	var response sigproto.Response
	err := withClient(ctx, t, func(ctx context.Context, client *sigproto.Client) (err error) {
		response, err = client.Evaluate(ctx, e)
		return err
	})
	return response, err
}

// withClient calls f with a client of a running signal, and then ends the signal. The context of f allows one start and
// one answer.
func withClient(ctx context.Context, t Target, f func(context.Context, *sigproto.Client) error) error {
	s, err := open(t)
	if err != nil {
		return err
	}
	defer s.stop(ctx)
	p, err := s.connect(ctx, t.Limits.Listen)
	if err != nil {
		return s.explain(err)
	}
	p.close()
	config := sigproto.ClientConfig{Address: s.socketArgs.address(), Hello: t.Hello}
	if err := config.Validate(); err != nil {
		return fmt.Errorf("send a request to %s: %w", t.Path, err)
	}
	client := sigproto.NewClient(config)
	defer client.Close()
	return s.explain(f(ctx, client))
}
