package apiserver

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
)

// duration converts seconds.
func duration(name string, s float64) (time.Duration, error) {
	if math.IsNaN(s) || s < 0 || s > view.LongestOrder.Seconds() {
		return 0, wrong("%s is %v: want 0 to %v seconds", name, s, view.LongestOrder.Seconds())
	}
	return time.Duration(s * float64(time.Second)), nil
}

// note returns the note of an order of the operator.
func (c *call) note(o api.TimedOrder, normal time.Duration) (api.Note, error) {
	if strings.TrimSpace(o.Reason) == "" {
		return api.Note{}, wrong("reason is missing: state why")
	}
	length := normal
	if o.For != nil {
		var err error
		if length, err = duration("for", *o.For); err != nil {
			return api.Note{}, err
		}
	}
	n, err := view.NewNote(c.now, c.by.Name, o.Reason, length)
	if err != nil {
		return n, wrong("%w", err)
	}
	return n, nil
}

// change writes an order, and logs it.
func (c *call) change(what string, n api.Note, f func(context.Context, *state.Orders) error) (any, error) {
	orders, err := c.pool.Orders.Change(c.request.Context(), false, f)
	if err != nil {
		return nil, err
	}
	c.Log.Info("order received", "pool", c.name, "order", what, "by", n.By, "why", n.Why)
	return orders, nil
}

func (c *call) pause() (any, error) {
	var o api.TimedOrder
	if err := c.body(&o); err != nil {
		return nil, err
	}
	n, err := c.note(o, view.PauseFor)
	if err != nil {
		return nil, err
	}
	return c.change("pause", n, func(ctx context.Context, s *state.Orders) error { return s.Pause(ctx, n) })
}

func (c *call) resume() (any, error) {
	var o api.EndOrder
	if err := c.body(&o); err != nil {
		return nil, err
	}
	n, err := c.note(api.TimedOrder{Reason: o.Reason}, 0)
	if err != nil {
		return nil, err
	}
	return c.change("resume", n, func(ctx context.Context, s *state.Orders) error { return s.Resume(ctx) })
}

func (c *call) offset() (any, error) {
	var o api.OffsetOrder
	if err := c.body(&o); err != nil {
		return nil, err
	}
	n, err := c.note(o.TimedOrder, view.OffsetFor)
	if err != nil {
		return nil, err
	}
	if o.Weight != math.Trunc(o.Weight) || math.Abs(o.Weight) >= view.LargestShift {
		return nil, wrong("weight is %v: want a whole number", o.Weight)
	}
	return c.change("offset", n, func(ctx context.Context, s *state.Orders) error {
		if o.Weight == 0 {
			return s.ClearOffset(ctx)
		}
		return s.SetOffset(ctx, api.Offset{Note: n, Weight: o.Weight})
	})
}

func (c *call) target() (any, error) {
	var o api.TargetOrder
	if err := c.body(&o); err != nil {
		return nil, err
	}
	n, err := c.note(o.TimedOrder, view.PinFor)
	if err != nil {
		return nil, err
	}
	if o.Clear == (o.Target != "") {
		return nil, wrong("give target or clear, and not both")
	}
	if o.Clear {
		return c.change("unpin", n, func(ctx context.Context, s *state.Orders) error { return s.ClearPin(ctx) })
	}
	pin, ok := view.ParsePin(o.Target)
	if !ok {
		return nil, wrong("target is %.40q: want a number of at least 0, min or max", o.Target)
	}
	pin.Note = n
	return c.change("target", n, func(ctx context.Context, s *state.Orders) error { return s.SetPin(ctx, pin) })
}

func (c *call) recover() (any, error) {
	var o api.RecoverOrder
	if err := c.body(&o); err != nil {
		return nil, err
	}
	n, err := c.note(api.TimedOrder{Reason: o.Reason}, 0)
	if err != nil {
		return nil, err
	}
	wait, err := duration("wait", o.Wait)
	if err != nil {
		return nil, err
	}
	answer, err := c.pool.Orders.Recover(c.request.Context(), api.RepairOrder{Op: api.OpRecover, Nodes: o.Nodes, By: n.By, Why: n.Why, For: wait})
	if err != nil {
		return nil, err
	}
	if answer.Error != "" {
		return nil, &problem{http.StatusConflict, fmt.Errorf("node health rejects the order: %s", answer.Error)}
	}
	c.Log.Info("order received", "pool", c.name, "order", "recover", "nodes", o.Nodes, "by", n.By, "why", n.Why)
	return answer, nil
}

func (c *call) retry() (any, error) {
	var o api.EndOrder
	if err := c.body(&o); err != nil {
		return nil, err
	}
	n, err := c.note(api.TimedOrder{Reason: o.Reason}, 0)
	if err != nil {
		return nil, err
	}
	app := c.request.PathValue("app")
	answer, err := c.pool.Orders.Retry(c.request.Context(), app)
	if err != nil {
		return nil, err
	}
	if !answer.OK {
		return nil, &problem{http.StatusConflict, fmt.Errorf("the harmonizer rejects the order: %s", answer.Error)}
	}
	c.Log.Info("order received", "pool", c.name, "order", "retry", "app", app, "by", n.By, "why", n.Why)
	return answer, nil
}
