package view

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/nodehealth/events"
)

// Default lengths of orders. An order ends by itself, so an operator can forget it safely.
const (
	PauseFor  = 30 * time.Minute
	OffsetFor = time.Hour
	PinFor    = 30 * time.Minute

	LongestOrder = 365 * 24 * time.Hour
	LongestWhy   = 200     // bytes: the reason is stored in the record of each tick
	largestPin   = 1e12    // an absolute target is below it
	LargestShift = 1 << 31 // an offset is below it in absolute value
)

// NewNote returns the note of an order that begins now. The length is 0 to LongestOrder; 0 lasts until the order is
// withdrawn. The reason has at most LongestWhy bytes, and may be empty.
func NewNote(now time.Time, by, why string, length time.Duration) (api.Note, error) {
	if length < 0 || length > LongestOrder {
		return api.Note{}, fmt.Errorf("length %v: want 0 to %v", length, LongestOrder)
	}
	if len(why) > LongestWhy {
		return api.Note{}, fmt.Errorf("reason has %d bytes: want at most %d", len(why), LongestWhy)
	}
	note := api.Note{By: by, Why: decide.OneLine(why), At: now.UTC()}
	if length > 0 {
		note.Until = note.At.Add(length)
	}
	return note, nil
}

// ParsePin parses "min", "max" or a target of at least 0. It rejects "+1", which looks like a change.
func ParsePin(text string) (pin api.Pin, ok bool) {
	if text == "min" || text == "max" {
		return api.Pin{Bound: text}, true
	}
	x, err := strconv.ParseFloat(text, 64)
	return api.Pin{Target: x}, err == nil && x >= 0 && x < largestPin && text[0] != '+'
}

// Orders writes the orders of one pool. It may be used concurrently.
type Orders struct {
	Bus           *bus.Bus
	Cluster, Pool string
}

// Change passes the stored orders of the pool to f, and returns the orders in force after it. Unless force is set, the
// error wraps state.ErrNoRecord for a pool without a tick and an order: its name is probably mistyped.
func (o Orders) Change(ctx context.Context, force bool, f func(context.Context, *state.Orders) error) (api.Orders, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	if !force {
		if err := Known(ctx, o.Bus, o.Cluster, o.Pool); err != nil {
			return api.Orders{}, err
		}
	}
	stored, err := state.OpenOrders(ctx, o.Bus.JetStream(), o.Cluster, o.Pool)
	if err == nil {
		err = f(ctx, stored)
	}
	if err != nil {
		return api.Orders{}, err
	}
	now, err := stored.List(ctx)
	return now.InForce(time.Now()), err
}

// Recover orders the repair of nodes. The order names the nodes, the operator and the reason.
func (o Orders) Recover(ctx context.Context, order api.RepairOrder) (api.RepairOrderResponse, error) {
	return events.NewClient(o.Bus.Conn(), o.Cluster, o.Pool).Order(ctx, order)
}

// Retry orders that crashed instances of an application of the pool start now, also those that are given up. An application of
// another pool is rejected.
func (o Orders) Retry(ctx context.Context, app string) (answer api.HarmonizerOrderAnswer, err error) {
	h, err := Harmonizer(ctx, o.Bus, o.Cluster, api.HarmonizerQuery{App: app})
	switch {
	case err != nil:
		return answer, err
	case h.App == nil || h.App.Pool != "" && h.App.Pool != o.Pool:
		return api.HarmonizerOrderAnswer{Error: fmt.Sprintf("pool %s has no app %.64q", o.Pool, app)}, nil
	}
	err = Request(ctx, o.Bus.Conn(), message.OrderSubject(o.Cluster), "harmonizer", api.HarmonizerOrder{Op: api.OpRetry, App: app}, &answer)
	return answer, err
}
