package signaltest

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// otherVersion is a protocol version that does not exist.
const otherVersion = 9999

func checkPluginStart(ctx context.Context, t Target) error {
	s, err := open(t, asPlugin(protocolVersion)...)
	if err != nil {
		return err
	}
	defer s.kill()
	if err := s.request(ctx); err != nil {
		return s.explain(err)
	}
	line, written := s.firstLine(ctx)
	if !written {
		return nil
	}
	_, err = handshake(line)
	return err
}

// firstLine returns the first line of a listening signal, or the available part of it. One that rests without a line is a plain
// signal: a plugin writes its line after it listens.
func (s *session) firstLine(ctx context.Context) (line string, written bool) {
	s.rest(ctx, s.stdout.line)
	text := s.stdout.String()
	line, _, _ = strings.Cut(text, "\n")
	return line, text != ""
}

// checkVersionSkew offers a version that the signal does not support. A plugin prints its own version in the handshake,
// or exits with a message. A plain signal ignores the offer.
func checkVersionSkew(ctx context.Context, t Target) error {
	s, err := open(t, asPlugin(otherVersion)...)
	if err != nil {
		return err
	}
	defer s.kill()
	if err := s.listenOrWrite(ctx); err != nil {
		return s.explain(fmt.Errorf("a host that offers only protocol version %d: %w", otherVersion, err))
	}
	line, written := s.firstLine(ctx)
	if how, over := s.ended(); over && !written {
		if s.cmd.ProcessState.Success() || s.stderr.String() == "" {
			return fmt.Errorf("a host that offers only protocol version %d: it ended without a message (%s)", otherVersion, how)
		}
		return nil
	}
	if !written {
		return nil // a plain signal
	}
	version, err := handshake(line)
	if err == nil && version == otherVersion {
		err = fmt.Errorf("it claims protocol version %d, which does not exist", otherVersion)
	}
	return err
}

// listenOrWrite waits until the signal listens, writes a line, or ends.
func (s *session) listenOrWrite(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	wroteLine := errors.New("it wrote a line")
	listening := make(chan error, 1)
	go func() {
		p, err := s.connect(ctx, s.target.Limits.Listen)
		if err == nil {
			p.close()
		}
		listening <- err
	}()
	select {
	case err := <-listening:
		if errors.Is(err, errEnded) {
			return nil
		}
		return err
	case <-s.stdout.line:
		cancel(wroteLine)
		<-listening
		return nil
	}
}
