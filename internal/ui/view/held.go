package view

import (
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/past"
)

// HeldOf returns what held the pool at the tick.
func HeldOf(t api.Summary, d api.Direction) api.HeldNudge {
	return api.HeldNudge{
		At: t.At, Pool: t.Pool, Direction: string(d), Before: t.Before, Target: t.Target, Rule: string(t.Rule), Why: t.Why,
		Holds: append([]api.Hold{}, past.HoldsAgainst(t, d)...),
	}
}
