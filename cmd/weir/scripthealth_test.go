package main

import (
	"regexp"

	"github.com/rogpeppe/go-internal/testscript"
)

// scriptMachine sets a variable to the first machine that a file, or stdout, names.
func scriptMachine(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: machine VARIABLE FILE")
	}
	text := ts.ReadFile(args[1])
	id := regexp.MustCompile(`\bi-[0-9a-f]{12}\b`).FindString(text)
	if id == "" {
		ts.Fatalf("no machine in %q", text)
	}
	ts.Setenv(args[0], id)
}
