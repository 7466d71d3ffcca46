package agent

import (
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/internal/platform/call"
	"github.com/weirkeeper/weirkeeper/pools"
)

// lateFor is how long after an accepted request an earlier one is late. After it, any request is
// accepted: a bus that has lost its state begins with epoch 1 again.
const lateFor = 10 * time.Minute

// sequence returns the place of a cordon.
func sequence(h nats.Header) (at pools.Sequence, err error) {
	for header, value := range map[string]*uint64{wire.HeaderEpoch: &at.Epoch, wire.HeaderNumber: &at.Number} {
		if *value, err = number(h, header); err != nil {
			return at, err
		}
	}
	return at, nil
}

// number returns the value of a header, or 0 without it.
func number(h nats.Header, header string) (uint64, error) {
	text := h.Get(header)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, call.Invalid("header %s: %.40q is not a decimal number", header, text)
	}
	return n, nil
}

// epochs refuses requests of a scheduler that has lost its lease.
type epochs struct {
	latest uint64
	at     time.Time // when it was last received
}

// check returns an error if the epoch in the header is lower than one received before.
func (e *epochs) check(now time.Time, h nats.Header) error {
	epoch, err := number(h, wire.HeaderEpoch)
	if err != nil || epoch == 0 {
		return err
	}
	if epoch < e.latest && now.Sub(e.at) < lateFor {
		return &call.Error{Code: wire.CodeStale, Message: fmt.Sprintf("epoch %d is over: the scheduler of epoch %d has the pool", epoch, e.latest)}
	}
	e.latest, e.at = epoch, now
	return nil
}

// announced stores the epoch of an announcement for the pool.
func (e *epochs) announced(now time.Time, h nats.Header, pool string) {
	if h.Get(wire.HeaderPool) == pool {
		_ = e.check(now, h) // an earlier or unreadable epoch changes nothing
	}
}
