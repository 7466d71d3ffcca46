package signaltest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// otherVersion is a protocol version that no signal speaks.
const otherVersion = 9999

// lineLimit is how long after it listens a plugin's first line is waited for. A
// plugin that is slower is taken for a plain signal.
const lineLimit = 300 * time.Millisecond

func checkPluginStart(ctx context.Context, t Target) error {
	s, err := open(t, asPlugin(protocolVersion)...)
	if err != nil {
		return err
	}
	defer s.kill()
	if err := s.ask(ctx); err != nil {
		return s.explain(err)
	}
	line, written := s.firstLine(ctx)
	if !written {
		return nil
	}
	_, err = handshake(line)
	return err
}

// firstLine returns the first line of a signal that listens, or what there is of
// it.
func (s *session) firstLine(ctx context.Context) (line string, written bool) {
	timer := time.NewTimer(lineLimit)
	defer timer.Stop()
	select {
	case <-s.stdout.line:
	case <-s.done:
	case <-ctx.Done():
	case <-timer.C:
	}
	text := s.stdout.String()
	line, _, _ = strings.Cut(text, "\n")
	return line, text != ""
}

// checkVersionSkew offers a version that the signal cannot speak. A plugin says
// so in its handshake, where its host sees the version, or ends with a message.
// A plain signal does not look at what is offered.
func checkVersionSkew(ctx context.Context, t Target) error {
	s, err := open(t, asPlugin(otherVersion)...)
	if err != nil {
		return err
	}
	defer s.kill()
	if err := s.listenOrSpeak(ctx); err != nil {
		return s.explain(fmt.Errorf("a host that offers only protocol version %d: %w", otherVersion, err))
	}
	line, written := s.firstLine(ctx)
	if how, over := s.ended(); over && !written {
		if s.cmd.ProcessState.Success() || s.stderr.String() == "" {
			return fmt.Errorf("a host that offers only protocol version %d: it ended without a word (%s)", otherVersion, how)
		}
		return nil
	}
	if !written {
		return nil // a plain signal
	}
	version, err := handshake(line)
	if err == nil && version == otherVersion {
		err = fmt.Errorf("it claims to speak protocol version %d, which does not exist", otherVersion)
	}
	return err
}

// listenOrSpeak waits until the signal listens, writes a line, or ends.
func (s *session) listenOrSpeak(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	spoken := errors.New("it spoke")
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
		cancel(spoken)
		<-listening
		return nil
	}
}
