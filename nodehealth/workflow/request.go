package workflow

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/nodehealth"
)

const maxSubject = 256 // bytes

func checkSubject(subject string) error {
	valid := len(subject) <= maxSubject && !strings.ContainsAny(subject, "*> \t\r\n")
	for token := range strings.SplitSeq(subject, ".") {
		valid = valid && token != ""
	}
	if !valid {
		return fmt.Errorf("is %.100q: want tokens with dots between them, without wildcards, at most %d bytes", subject, maxSubject)
	}
	return nil
}

func (r *Runner) request(ctx context.Context, subject, attempt string, body []byte) (nodehealth.Result, error) {
	nc := r.config.Conn
	switch {
	case nc == nil:
		return nodehealth.Result{}, errors.New("no NATS connection is configured")
	case !nc.IsConnected():
		return nodehealth.Result{}, nats.ErrDisconnected
	case int64(len(body)) > nc.MaxPayload():
		return nodehealth.Result{}, nats.ErrMaxPayload
	}
	m := &nats.Msg{Subject: subject, Data: body, Header: nats.Header{headerKey: {attempt}}}
	got, err := bus.RequestMsg(ctx, nc, m)
	if errors.Is(err, nats.ErrNoResponders) {
		return failed("no service responds on " + subject), nil
	}
	if err != nil {
		return nodehealth.Result{}, err
	}
	if len(strings.TrimSpace(string(got.Data[:min(len(got.Data), maxAnswer)]))) == 0 {
		return failed("the response is empty"), nil
	}
	return response{text: got.Data[:min(len(got.Data), maxAnswer)], cut: len(got.Data) > maxAnswer}.result(), nil
}
