package command

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// tree returns a small command line.
func tree() *cobra.Command {
	root := (&Root{Stdout: io.Discard, Stderr: io.Discard}).Command()
	group := func(name string, below ...string) {
		g := &cobra.Command{Use: name, Aliases: []string{name + "s"}, RunE: Help}
		for _, b := range below {
			g.AddCommand(&cobra.Command{Use: b, RunE: Help})
		}
		root.AddCommand(g)
	}
	group("app", "list", "get", "logs", "delete", "apply")
	group("node", "list", "status")
	group("pool", "list", "drain", "status")
	root.AddCommand(&cobra.Command{Use: "status", RunE: Help})
	return root
}

// TestWordsOfOtherTools replaces only words with one meaning, and no flag, value or argument.
func TestWordsOfOtherTools(t *testing.T) {
	for line, want := range map[string]string{
		"logs web":                     "app logs web",
		"logs --pool logs web":         "app logs --pool logs web",
		"--pool node drain n1":         "--pool node pool drain n1",
		"--pool=x --timeout 5s log w":  "--pool=x --timeout 5s app logs w",
		"node --pool x drain n1":       "pool drain --pool x n1",
		"nodes drain n1":               "pool drain n1",
		"drain node n1":                "pool drain n1",
		"get nodes":                    "node list",
		"get -o json nodes":            "node list -o json",
		"delete app logs":              "app delete logs",
		"get app list":                 "app get list",
		"status logs":                  "status logs",
		"app logs drain":               "app logs drain",
		"app get -- logs":              "app get -- logs",
		"-- logs web":                  "-- logs web",
		"apply -f x":                   "app apply -f x",
		"nodes":                        "node list",
		"nodes list":                   "nodes list",
		"":                             "",
		"__complete logs ":             "__complete logs ",
		"--version":                    "--version",
		"-h logs":                      "-h app logs",
		"--timeout":                    "--timeout",
		"--bogus value status":         "--bogus value status",
		"status --watch --pool node x": "status --watch --pool node x",
	} {
		got, err := translate(tree(), strings.Fields(line))
		if err != nil || !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%q is run as %q (%v), want %q", line, got, err, want)
		}
	}
	for _, line := range []string{"scale web 5", "top", "bogus", "node bogus --help", "pool get", "aws list"} {
		if got, err := translate(tree(), strings.Fields(line)); err == nil || ExitCode(err) != ExitUsage {
			t.Errorf("%q is run as %q (%v), want a usage error", line, got, err)
		}
	}
}
