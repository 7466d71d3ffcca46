package command

import (
	"strings"

	"github.com/spf13/cobra"
)

// flagMeant returns the flag with the meaning of a flag of other tools; empty if the command has none. name is without
// dashes, or as in the text of an unknown shorthand.
func flagMeant(cmd *cobra.Command, name string) string {
	if short, ok := strings.CutPrefix(name, "unknown shorthand flag: '"); ok && short != "" {
		name = short[:1]
	}
	flags := map[string]string{
		"yaml": "--output yaml", "format": "--output", "reason": "--why", "why": "--reason", "message": "--why", "m": "--why", "replicas": "--instances", "count": "--instances",
		"tail": "--lines", "n": "--lines", "last": "--since", "from": "--since", "duration": "--for", "until": "--for", "memory": "--mem", "cpu": "--cpus", "image": "--release",
		"namespace": "--pool", "server": "--nats", "config": "--config-dir", "no-color": "--color never", "f": "--follow", "w": "--watch", "force": "--yes",
		"verbose": "--output json for all fields", "v": "--output json for all fields", "wide": "--output table, which has all columns",
	}
	use := flags[name]
	flag, _, _ := strings.Cut(strings.TrimPrefix(use, "--"), " ")
	if use != "" && cmd.Flag(flag) != nil {
		return use
	}
	switch name {
	case "A", "a", "all", "all-pools", "all-namespaces":
		return `"weir pool list" for all pools`
	case "json", "o":
		if cmd.HasSubCommands() {
			return "--output json after the name of a command"
		}
	case "yes", "y", "force":
		return "the command without it: it asks no question"
	}
	return ""
}
