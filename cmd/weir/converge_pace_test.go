//go:build !race

package main

import "time"

// convergePace is what the intervals of TestConvergence are multiples of.
const convergePace = time.Second
