package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// racedVariable names the folder of weir and weir-local with the race detector, in a test binary that has it. WEIR_TEST_BIN
// names that of the same programs without it: they take a quarter of the processor time.
const racedVariable = "WEIR_TEST_RACED_BIN"

// raced are the tests whose daemons have the race detector. Together they run every daemon while processes end, messages
// are lost, and requests arrive at the same time. The packages of each daemon have it in their own tests.
var raced = []string{
	"TestFaults",          // weir up
	"TestSwapLosesNoTick", // weir up with a new configuration
	"TestThreeHosts",      // each daemon twice
}

// weirOf returns the path of the weir that a test starts.
func weirOf(tb testing.TB) string {
	folder := "WEIR_TEST_BIN"
	if name, _, _ := strings.Cut(tb.Name(), "/"); slices.Contains(raced, name) {
		folder = racedVariable
	}
	return filepath.Join(os.Getenv(folder), "weir")
}
