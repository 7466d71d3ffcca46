package signaltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"syscall"
)

func checkListens(ctx context.Context, t Target) error {
	return withPeer(ctx, t, func(*session, *peer) error { return nil })
}

func checkStartsSoon(ctx context.Context, t Target) error {
	return withSignal(t, func(s *session) error {
		p, err := s.connect(ctx, t.Limits.Start)
		if err != nil {
			return err
		}
		p.close()
		return nil
	})
}

func checkAnswers(ctx context.Context, t Target) error {
	return withSignal(t, func(s *session) error {
		err := s.request(ctx)
		if err != nil && s.readsLittleEndian(ctx) {
			n := len(sampleBody(t))
			err = &adviceError{err, fmt.Sprintf("read the length with the highest byte first (Python: struct.unpack(\">I\", ...)): it was %d, and with the lowest first it looks like %d",
				n, bits.ReverseBytes32(uint32(n)))}
		}
		return err
	})
}

// readsLittleEndian reports whether a signal that did not answer does so if the length is the same in both byte orders.
func (s *session) readsLittleEndian(ctx context.Context) bool {
	const same = 0x010100
	requestBody := sampleBody(s.target)
	times := len(requestBody)/same + 1
	if times > 0xff {
		return false
	}
	requestBody = append(requestBody, bytes.Repeat([]byte{' '}, times*same-len(requestBody))...)
	return s.withConnection(ctx, func(p *peer) error {
		if err := p.hello(s.target); err != nil {
			return err
		}
		_, err := p.request(requestBody)
		return err
	}) == nil
}

func checkRestart(ctx context.Context, t Target) error {
	return withSignal(t, func(s *session) error {
		if err := s.request(ctx); err != nil {
			return err
		}
		s.kill()
		again, err := openAt(t, s.socketArgs)
		if err != nil {
			return err
		}
		defer again.kill()
		if err := again.request(ctx); err != nil {
			return again.explain(fmt.Errorf("started again after kill -9: %w", err))
		}
		return nil
	})
}

func checkSigterm(ctx context.Context, t Target) error {
	return withPeer(ctx, t, func(s *session, p *peer) error {
		if err := p.hello(t); err != nil {
			return err
		}
		s.signal(syscall.SIGTERM)
		if err := s.wait(ctx, t.Limits.Exit); err != nil {
			return fmt.Errorf("after SIGTERM: %w", err)
		}
		if !s.cmd.ProcessState.Success() {
			return errors.New("after SIGTERM it did not end with exit code 0")
		}
		return nil
	})
}

func checkUsage(ctx context.Context, t Target) error {
	for _, wrong := range [][]string{{}, {"namespace", "name"}} {
		if err := wrongArguments(ctx, t, wrong); err != nil {
			return fmt.Errorf("with %d arguments instead of 3: %w", len(wrong), err)
		}
	}
	return nil
}

func wrongArguments(ctx context.Context, t Target, arguments []string) error {
	p, err := launch(t, nil, arguments...)
	if err != nil {
		return err
	}
	defer p.kill()
	if err := p.wait(ctx, t.Limits.Start); err != nil {
		return err
	}
	switch {
	case p.cmd.ProcessState.ExitCode() != 2:
		return p.explain(errors.New("want exit code 2"))
	case !strings.Contains(strings.ToLower(p.stderr.String()), "usage"):
		return p.explain(errors.New(`its standard error has no "usage"`))
	}
	return nil
}

func checkStdout(ctx context.Context, t Target) error {
	return withSignal(t, func(s *session) error {
		if err := s.request(ctx); err != nil {
			return err
		}
		s.stop(ctx)
		if text := s.stdout.String(); text != "" {
			return fmt.Errorf("it wrote %.200q to standard output", text)
		}
		return nil
	})
}

func checkDistinctApp(ctx context.Context, t Target) error {
	if t.FixedApp {
		return nil
	}
	return withPeer(ctx, t, func(s *session, p *peer) error {
		if _, err := p.evaluate(t); err != nil {
			return err
		}
		other := s.socketArgs
		other.app += "~1"
		second, err := openAt(t, other)
		if err != nil {
			return err
		}
		defer second.kill()
		if err := second.request(ctx); err != nil {
			return second.explain(fmt.Errorf("a second process, started with app %q: %w", other.app, err))
		}
		return nil
	})
}
