package signaltest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/sigproto"
)

const (
	// repeats is how often the same request is sent on one connection, if the time limit of an answer allows it.
	repeats = 100
	// writes is the number of answers that are checked for being one write. Two writes in quick succession may
	// sometimes resemble one.
	writes = 30
	// afterLimit is how long no byte may follow a response.
	afterLimit = 50 * time.Millisecond
)

// checkResources leaves other errors than those of resources to checkVerdict.
func checkResources(ctx context.Context, t Target) error {
	if err := requestAsClient(ctx, t); !aboutVerdict(err) {
		return err
	}
	return nil
}

func checkVerdict(ctx context.Context, t Target) error {
	if err := requestAsClient(ctx, t); aboutVerdict(err) {
		return err
	}
	return nil
}

func aboutVerdict(err error) bool {
	field, ok := errors.AsType[*sigproto.FieldError](err)
	return ok && (field.Field == "Verdict" || field.Field == "Explanation")
}

// requestAsClient sends a request as the autoscaler does, with its rules for a response. Hello and length follow each other
// immediately.
func requestAsClient(ctx context.Context, t Target) error {
	return withSignal(t, func(s *session) error {
		client := sigproto.NewClient(sigproto.ClientConfig{Address: s.socketArgs.address(), Hello: t.Hello})
		defer client.Close()
		bounded, cancel := context.WithTimeout(ctx, t.Limits.Listen+t.Limits.Answer)
		defer cancel()
		_, err := client.Evaluate(bounded, sample(t))
		return err
	})
}

func checkAnswerSize(ctx context.Context, t Target) error {
	return withPeer(ctx, t, func(_ *session, p *peer) error {
		response, err := p.evaluate(t)
		if err == nil && 1+len(response) > maxAnswer {
			err = fmt.Errorf("its ACK and response have %d bytes, want at most %d", 1+len(response), maxAnswer)
		}
		return err
	})
}

func checkOneWrite(ctx context.Context, t Target) error {
	return withSignal(t, func(s *session) error {
		for begin, i := time.Now(), 0; i < writes && time.Since(begin) < t.Limits.Answer; i++ {
			// A new connection for each: other checks cover other mistakes.
			if err := s.withConnection(ctx, func(p *peer) error { return p.oneWrite(t) }); err != nil {
				return err
			}
		}
		return nil
	})
}

// oneWrite makes one evaluation, and checks the first bytes that arrive.
func (p *peer) oneWrite(t Target) error {
	requestBody := sampleBody(t)
	if err := p.hello(t); err != nil {
		return err
	}
	if err := p.offer(requestBody); err != nil {
		return err
	}
	if err := p.send(requestBody); err != nil {
		return err
	}
	got, err := p.first()
	if err != nil {
		return fmt.Errorf("read the answer: %w", p.plain(err))
	}
	if len(got) == 0 || got[0] != ackGood {
		return fmt.Errorf("the answer begins with %.20q, want the byte 0x01", got)
	}
	var response json.RawMessage
	if err := json.NewDecoder(bytes.NewReader(got[1:])).Decode(&response); err != nil {
		return fmt.Errorf("the first %d bytes of the answer came alone: %.100q", len(got), got)
	}
	return nil
}

func checkKeepsConnection(ctx context.Context, t Target) error {
	return withPeer(ctx, t, func(_ *session, p *peer) error {
		if _, err := p.evaluate(t); err != nil {
			return err
		}
		if err := p.send(lengthBytes(len(sampleBody(t)))); err != nil {
			return fmt.Errorf("send a second length on the same connection: %w", err)
		}
		// nothing_after reports other mistakes of the first answer.
		if _, err := p.reader.ReadBytes(ackGood); err != nil {
			return fmt.Errorf("read the ACK of a second length on the same connection: %w", p.plain(err))
		}
		return nil
	})
}

func checkNothingAfter(ctx context.Context, t Target) error {
	return withPeer(ctx, t, func(_ *session, p *peer) error {
		response, err := p.evaluate(t)
		if err != nil {
			return err
		}
		wait := time.NewTimer(afterLimit)
		defer wait.Stop()
		select {
		case <-ctx.Done():
		case <-wait.C:
		}
		if b, found := p.unexpectedByte(); found {
			return fmt.Errorf("byte 0x%02x came after the response %.200s", b, response)
		}
		return nil
	})
}

// checkSilence waits on two signals in parallel: on one before the first evaluation, on the other after it.
func checkSilence(ctx context.Context, t Target) error {
	return withPeer(ctx, t, func(_ *session, first *peer) error {
		if err := first.hello(t); err != nil {
			return err
		}
		return withPeer(ctx, t, func(_ *session, next *peer) error {
			if _, err := next.evaluate(t); err != nil {
				return err
			}
			wait := time.NewTimer(t.Limits.Rest)
			defer wait.Stop()
			select {
			case <-ctx.Done():
			case <-wait.C:
			}
			if _, err := first.request(sampleBody(t)); err != nil {
				return fmt.Errorf("an evaluation %v after the hello: %w", t.Limits.Rest, err)
			}
			if _, err := next.request(sampleBody(t)); err != nil {
				return fmt.Errorf("an evaluation %v after another: %w", t.Limits.Rest, err)
			}
			return nil
		})
	})
}

func checkRepeats(ctx context.Context, t Target) error {
	return withPeer(ctx, t, func(_ *session, p *peer) error {
		requestBody := sampleBody(t)
		if err := p.hello(t); err != nil {
			return err
		}
		var first json.RawMessage
		for begin, i := time.Now(), 0; i < repeats && time.Since(begin) < t.Limits.Answer; i++ {
			response, err := p.request(requestBody)
			if err != nil {
				return fmt.Errorf("evaluation %d on one connection: %w", i+1, err)
			}
			if i == 0 {
				first = response
			}
			if !bytes.Equal(response, first) {
				return fmt.Errorf("evaluation %d was answered %.200s, the first one, with the same body, %.200s", i+1, response, first)
			}
		}
		return nil
	})
}
