package signaltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
	"unicode/utf16"
)

func checkNaN(ctx context.Context, t Target) error {
	return withSignal(t, func(s *session) error {
		for _, value := range []string{"NaN", "Infinity", "-Infinity", "1e999"} {
			err := s.withConnection(ctx, func(p *peer) error {
				return errors.Join(p.hello(t), p.refuses(bodyOf(t, value)))
			})
			if err != nil {
				return fmt.Errorf("a body with the value %s: %w", value, err)
			}
			if err := s.alive(ctx); err != nil {
				return fmt.Errorf("a body with the value %s: %w", value, err)
			}
		}
		return nil
	})
}

// bodyOf returns a body with one point that has this text as its value.
func bodyOf(t Target, value string) []byte {
	now := sampleTime(t)
	name, _ := json.Marshal(sample(t).Series[0].Name) // cannot fail for a string
	return fmt.Appendf(nil, `{"metrics":{%s:[[%d,%s]]},"timestamp":%d}`, name, now, value, now)
}

// badBody is a body that must be refused.
type badBody struct {
	what string
	body []byte
}

func checkGarbageBody(ctx context.Context, t Target) error {
	good := sampleBody(t)
	return refusesAll(ctx, t, []badBody{
		{"bytes that are not JSON", []byte("\x00\xff{{{ no JSON")},
		{"a body cut short", good[:len(good)-1]},
		{"a body that is a list", []byte("[" + string(good) + "]")},
		{"an empty body", nil},
	})
}

func checkBodyTypes(ctx context.Context, t Target) error {
	now := sampleTime(t)
	name, _ := json.Marshal(sample(t).Series[0].Name) // cannot fail for a string
	points := func(format string) []byte {
		return fmt.Appendf(nil, `{"metrics":{%s:`+format+`},"timestamp":%d}`, name, now)
	}
	return refusesAll(ctx, t, []badBody{
		{"no key at all", []byte(`{}`)},
		{"no metrics", fmt.Appendf(nil, `{"timestamp":%d}`, now)},
		{"metrics that are null", fmt.Appendf(nil, `{"metrics":null,"timestamp":%d}`, now)},
		{"metrics that are a list", fmt.Appendf(nil, `{"metrics":[1,2],"timestamp":%d}`, now)},
		{"no timestamp", []byte(`{"metrics":{}}`)},
		{"a timestamp that is null", []byte(`{"metrics":{},"timestamp":null}`)},
		{"a timestamp that is a string", fmt.Appendf(nil, `{"metrics":{},"timestamp":"%d"}`, now)},
		{"a series that is null", points("null")},
		{"a point of one number", points("[[1]]")},
		{"a point of three numbers", points("[[1,2,3]]")},
		{"a value that is null", points("[[1,null]]")},
		{"a value that is a string", points(`[[1,"2"]]`)},
	})
}

func checkBodyUTF8(ctx context.Context, t Target) error {
	good := sampleBody(t)
	wide := func(mark string, low int) []byte {
		out := []byte(mark)
		for _, unit := range utf16.Encode([]rune(string(good))) {
			pair := [2]byte{byte(unit >> 8), byte(unit)}
			out = append(out, pair[low], pair[1-low])
		}
		return out
	}
	return refusesAll(ctx, t, []badBody{
		{"UTF-16 with a byte order mark", wide("\xff\xfe", 1)},
		{"UTF-16, lowest byte first", wide("", 1)},
		{"UTF-16, highest byte first", wide("", 0)},
		{"a byte order mark before UTF-8", append([]byte("\xef\xbb\xbf"), good...)},
	})
}

// refusesAll sends all bodies on one connection, and then a valid one.
func refusesAll(ctx context.Context, t Target, all []badBody) error {
	good := sampleBody(t)
	return withPeer(ctx, t, func(_ *session, p *peer) error {
		if err := p.hello(t); err != nil {
			return err
		}
		for _, bad := range all {
			if err := p.refuses(bad.body); err != nil {
				return fmt.Errorf("%s: %w", bad.what, err)
			}
		}
		if _, err := p.request(good); err != nil {
			return fmt.Errorf("a valid body on the same connection: %w", err)
		}
		return nil
	})
}

// refuses sends a body that must be refused.
func (p *peer) refuses(bad []byte) error {
	if err := p.offer(bad); err != nil {
		return err
	}
	if len(bad) > 0 {
		if err := p.send(bad); err != nil {
			return err
		}
	}
	return p.refusal()
}

func checkGarbageLength(ctx context.Context, t Target) error {
	return withSignal(t, func(s *session) error {
		err := s.withConnection(ctx, func(p *peer) error {
			if err := p.hello(t); err != nil {
				return err
			}
			if err := p.send(lengthBytes(math.MaxUint32)); err != nil {
				return err
			}
			return p.closed()
		})
		if err != nil {
			return fmt.Errorf("a length of %d bytes: %w", uint32(math.MaxUint32), err)
		}
		return s.alive(ctx)
	})
}

// closed returns nil when the signal closes the connection, with or without a refusal.
func (p *peer) closed() error {
	if err := p.conn.SetDeadline(time.Now().Add(p.limit)); err != nil {
		return err
	}
	said, err := io.ReadAll(io.LimitReader(p.reader, maxAnswer))
	switch {
	case len(said) > 0 && said[0] == ackGood:
		return errors.New("it accepted the length (0x01), want a refusal (0x02) and the end of the connection")
	case err != nil && isTimeout(err):
		return fmt.Errorf("it did not close the connection within %v", p.limit)
	}
	return nil // a reset closes it too
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

// checkHangup closes the connection at each point of an evaluation before the end of the body.
func checkHangup(ctx context.Context, t Target) error {
	hello, requestBody := helloBytes(t), sampleBody(t)
	upTo := func(p *peer, body int) error {
		if err := p.hello(t); err != nil {
			return err
		}
		if err := p.offer(requestBody); err != nil {
			return err
		}
		if body == 0 {
			return nil
		}
		return p.send(requestBody[:body])
	}
	return withSignal(t, func(s *session) error {
		for _, phase := range []struct {
			what           string
			withConnection func(*peer) error
		}{
			{"before the hello", func(*peer) error { return nil }},
			{"in the hello", func(p *peer) error { return p.send(hello[:len(hello)/2]) }},
			{"after the hello", func(p *peer) error { return p.send(hello) }},
			{"in the length", func(p *peer) error { return errors.Join(p.send(hello), p.send(lengthBytes(len(requestBody))[:2])) }},
			{"before the ACK of the length", func(p *peer) error { return errors.Join(p.send(hello), p.send(lengthBytes(len(requestBody)))) }},
			{"before the body", func(p *peer) error { return upTo(p, 0) }},
			{"in the body", func(p *peer) error { return upTo(p, len(requestBody)/2) }},
		} {
			if err := s.withConnection(ctx, phase.withConnection); err != nil {
				return fmt.Errorf("before the autoscaler closes the connection %s: %w", phase.what, err)
			}
			if err := s.alive(ctx); err != nil {
				return fmt.Errorf("the autoscaler closed the connection %s: %w", phase.what, err)
			}
		}
		return nil
	})
}

// checkCancel ends its side of the connection before the last byte of the body, so that no signal can have answered before.
func checkCancel(ctx context.Context, t Target) error {
	requestBody := sampleBody(t)
	return withSignal(t, func(s *session) error {
		err := s.withConnection(ctx, func(p *peer) error {
			if err := p.hello(t); err != nil {
				return err
			}
			if err := p.offer(requestBody); err != nil {
				return err
			}
			if err := p.send(requestBody[:len(requestBody)-1]); err != nil {
				return err
			}
			if err := p.conn.CloseRead(); err != nil { // from now on a write of the signal fails as after a close
				return err
			}
			if err := p.send(requestBody[len(requestBody)-1:]); err != nil {
				return err
			}
			p.rest()
			s.rest(ctx, nil) // it has computed its answer
			return nil
		})
		if err != nil {
			return err
		}
		if err := s.alive(ctx); err != nil {
			return fmt.Errorf("the autoscaler closed the connection during a computation: %w", err)
		}
		return nil
	})
}
