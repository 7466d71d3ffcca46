package ask

import (
	"context"
	"errors"
	"io"
	"syscall"
	"testing"

	"github.com/weirkeeper/weirkeeper/sigproto"
)

func TestResponse(t *testing.T) {
	t.Parallel()
	fail := func(phase sigproto.Phase, err error) error { return &sigproto.Error{Phase: phase, Err: err} }
	tests := []struct {
		name         string
		err          error
		silent, gone bool
	}{
		{"answered", nil, false, false},
		{"nobody listens", fail(sigproto.PhaseConnect, errors.Join(context.DeadlineExceeded, syscall.ECONNREFUSED)), false, true},
		{"somebody else listens", fail(sigproto.PhaseConnect, errors.New("another group")), false, true},
		{"no ACK", fail(sigproto.PhaseLengthACK, context.DeadlineExceeded), true, false},
		{"no answer", fail(sigproto.PhaseResponse, context.DeadlineExceeded), true, false},
		{"the loop ends", fail(sigproto.PhaseResponse, context.Canceled), false, false},
		{"hung up", fail(sigproto.PhaseDataACK, io.EOF), false, true},
		{"hung up in the answer", fail(sigproto.PhaseResponse, io.ErrUnexpectedEOF), false, true},
		{"pipe", fail(sigproto.PhaseDataACK, syscall.EPIPE), false, true},
		{"reset", fail(sigproto.PhaseLengthACK, syscall.ECONNRESET), false, true},
		{"refused", fail(sigproto.PhaseDataACK, sigproto.ErrRefused), false, false},
		{"cannot be encoded", fail(sigproto.PhaseEncode, sigproto.ErrTooLarge), false, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := response{err: test.err}
			if r.silent() != test.silent || r.gone() != test.gone {
				t.Errorf("silent %t, gone %t: want %t, %t", r.silent(), r.gone(), test.silent, test.gone)
			}
		})
	}
}
