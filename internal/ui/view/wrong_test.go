package view

import (
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// The lines name the node, what it does, and what to do: those of a pool, or all.
func TestWrongLines(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := api.HarmonizerStatus{WrongSenders: 2, Wrong: []api.WrongSender{
		{Pool: "web", Node: "i-1", Why: api.WhyNotPlaced, Since: at, Count: 7, Detail: "lists x of app shop, index 0"},
		{Pool: "batch", Node: "i-1", Why: api.WhySendsTooMuch, Since: at, Count: 80_000},
	}}
	web := "node web/i-1 lists copies that were not placed there: 7 times since 2026-03-01T12:00:00Z, and it changes nothing " +
		"(lists x of app shop, index 0); see the log of its agent, and replace its key if it is not yours"
	batch := "node batch/i-1 sends more than its share, or too large messages: 80000 times since 2026-03-01T12:00:00Z, and it changes nothing; " +
		"see the log of its agent, and replace its key if it is not yours"
	for pool, want := range map[string][]string{"web": {web}, "batch": {batch}, "": {web, batch}, "other": nil} {
		if got := WrongLines(s, pool); !slices.Equal(got, want) {
			t.Errorf("lines of pool %q: %q, want %q", pool, got, want)
		}
	}
}
