package view

import (
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/internal/past"
)

// Held is what held a pool at one tick, in one direction.
type Held struct {
	At        time.Time   `json:"at"`
	Pool      string      `json:"pool"`
	Direction string      `json:"direction"`
	Before    *float64    `json:"before,omitempty"`
	Target    *float64    `json:"target,omitempty"`
	Rule      string      `json:"rule,omitempty"`
	Why       string      `json:"why,omitempty"`
	Holds     []past.Hold `json:"holds"`
}

// HeldOf returns what held the pool at the tick.
func HeldOf(t past.Summary, d decide.Direction) Held {
	return Held{
		At: t.At, Pool: t.Pool, Direction: string(d), Before: t.Before, Target: t.Target, Rule: string(t.Rule), Why: t.Why,
		Holds: append([]past.Hold{}, t.Against(d)...),
	}
}
