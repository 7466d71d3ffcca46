package signaltest

import (
	"context"
	"fmt"

	"github.com/weirkeeper/weirkeeper/sigproto"
)

// Evaluate starts the target's program, sends one request as the autoscaler does, and ends the program. An error
// contains the first and the last lines that the program wrote to standard error.
func Evaluate(ctx context.Context, t Target, e sigproto.Evaluation, hello sigproto.Hello) (sigproto.Response, error) {
	t.Hello = hello
	var response sigproto.Response
	err := Running(ctx, t, func(ctx context.Context, client *sigproto.Client) (err error) {
		response, err = client.Evaluate(ctx, e)
		return err
	})
	return response, err
}

// Running starts the target's program, calls f with its only client, and ends the program. It returns the error of f. An error contains
// the first and the last lines that the program wrote to standard error.
func Running(ctx context.Context, t Target, f func(context.Context, *sigproto.Client) error) error {
	if err := t.Validate(); err != nil {
		return err
	}
	return withClient(ctx, t.withDefaults(), f)
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
