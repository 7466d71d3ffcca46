//go:build race

package main

import "time"

// convergePace is what the intervals of TestConvergence are multiples of: with the
// race detector a pass of all rows takes seconds.
const convergePace = 1500 * time.Millisecond
