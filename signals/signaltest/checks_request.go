package signaltest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/weirkeeper/weirkeeper/sigproto"
)

// hugeSeries and hugePoints are a day of a hundred metrics, a point a minute.
const hugeSeries, hugePoints = 100, 1440

// answersBody returns a check that the signal answers a request.
func answersBody(requestBody func(Target) []byte) func(context.Context, Target) error {
	return func(ctx context.Context, t Target) error {
		return withPeer(ctx, t, func(_ *session, p *peer) error {
			if err := p.hello(t); err != nil {
				return err
			}
			_, err := p.request(requestBody(t))
			return err
		})
	}
}

func checkEmptyWindow(ctx context.Context, t Target) error {
	return answersBody(func(t Target) []byte {
		return body(sigproto.Evaluation{Timestamp: sampleTime(t)}, "")
	})(ctx, t)
}

func checkEmptySeries(ctx context.Context, t Target) error {
	return answersBody(func(t Target) []byte { return body(emptied(sample(t)), "") })(ctx, t)
}

func checkHugeWindow(ctx context.Context, t Target) error {
	return answersBody(func(t Target) []byte { return body(grown(sample(t), hugeSeries, hugePoints), "") })(ctx, t)
}

func checkFullMantissas(ctx context.Context, t Target) error {
	values := []float64{0.30000000000000004, 1234.5678901234567, 9007199254740991, 2.5e-7, 1.2345678901234567e21, 0.1}
	return answersBody(func(t Target) []byte { return body(withValues(sample(t), values), "") })(ctx, t)
}

func checkUnknownKeys(ctx context.Context, t Target) error {
	return withPeer(ctx, t, func(_ *session, p *peer) error {
		unknown := map[string]any{"signaltest": map[string]any{"a": []int{1, 2}}}
		if err := p.send(helloWith(t, unknown)); err != nil {
			return err
		}
		p.rest()
		_, err := p.request(body(sample(t), `,"signaltest":{"a":[1,{"b":null}]}`))
		return err
	})
}

func checkHelloWithLength(ctx context.Context, t Target) error {
	return withPeer(ctx, t, func(_ *session, p *peer) error {
		requestBody := sampleBody(t)
		if err := p.send(append(helloBytes(t), lengthBytes(len(requestBody))...)); err != nil {
			return err
		}
		if err := p.ack(); err != nil {
			return fmt.Errorf("read the ACK of a length that came with the hello: %w", err)
		}
		if err := p.send(requestBody); err != nil {
			return err
		}
		_, err := p.answer()
		return err
	})
}

// checkSplitHello sends a hello with a string that makes its end hard to find, in one piece and in two.
func checkSplitHello(ctx context.Context, t Target) error {
	hello := helloWith(t, map[string]any{"signaltest": `}{ü]["} \`})
	after := func(text string) int { return bytes.Index(hello, []byte(text)) + len(text) }
	for _, cut := range []struct {
		what string
		at   int
	}{
		{"that has braces, brackets and a quote in a string", len(hello)},
		{"that is cut in two within a character", after("ü") - 1},
		{"that is cut in two after a brace in a string", after(`"}{`)},
		{"that is cut in two after a backslash", after(`][\`)},
		{"that is cut in two before its last brace", len(hello) - 1},
	} {
		err := withPeer(ctx, t, func(_ *session, p *peer) error {
			if err := p.send(hello[:cut.at]); err != nil {
				return err
			}
			p.rest()
			if cut.at < len(hello) {
				if err := p.send(hello[cut.at:]); err != nil {
					return err
				}
				p.rest()
			}
			_, err := p.request(sampleBody(t))
			return err
		})
		if err != nil {
			return fmt.Errorf("a hello %s: %w", cut.what, err)
		}
	}
	return nil
}

// checkSplitBody cuts a body at random. The signal reads each piece before the next one is sent. The random sequence is
// fixed, so a failure is reproducible.
func checkSplitBody(ctx context.Context, t Target) error {
	const pieces = 12
	random := rand.New(rand.NewPCG(1, 2))
	return withPeer(ctx, t, func(_ *session, p *peer) error {
		if err := p.hello(t); err != nil {
			return err
		}
		requestBody := sampleBody(t)
		if err := p.offer(requestBody); err != nil {
			return err
		}
		for left := pieces; len(requestBody) > 0; left-- {
			n := len(requestBody)
			if left > 1 {
				n = min(n, 1+random.IntN(2*n/left+1))
			}
			if err := p.send(requestBody[:n]); err != nil {
				return fmt.Errorf("send a piece of the body: %w", err)
			}
			p.rest()
			requestBody = requestBody[n:]
		}
		_, err := p.answer()
		return err
	})
}

func checkSecondConnection(ctx context.Context, t Target) error {
	return withPeer(ctx, t, func(s *session, p *peer) error {
		if _, err := p.evaluate(t); err != nil {
			return err
		}
		return s.withConnection(ctx, func(second *peer) error {
			if _, err := second.evaluate(t); err != nil {
				return fmt.Errorf("on the second connection: %w", err)
			}
			return nil
		})
	})
}
