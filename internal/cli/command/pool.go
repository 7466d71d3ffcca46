package command

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
)

// PoolArg accepts the name of the pool as the only argument, in place of --pool.
func (r *Root) PoolArg(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return OneArg("pool")(cmd, args)
	}
	if len(args) == 1 {
		return r.UsePool(cmd, args[0])
	}
	return nil
}

// UsePool makes the pool that an argument names the pool of the command. Two different names are a mistake.
func (r *Root) UsePool(cmd *cobra.Command, name string) error {
	if cmd.Flags().Changed("pool") && r.Pool != name {
		return usage.New(fmt.Errorf("%s has two pools: %q, and %q of --pool; give one of them\nSee %q", cmd.CommandPath(), name, r.Pool, cmd.CommandPath()+" --help"))
	}
	if err := NotTime(cmd, name, "pool"); err != nil {
		return err
	}
	r.Pool, r.PoolNamed = name, true
	return nil
}

// NotTime returns a mistake if an argument is a time or a duration in place of what the command takes. --pool accepts a pool
// with such a name.
func NotTime(cmd *cobra.Command, word, what string) error {
	kind := "time"
	ago, err := parseDuration(word)
	if err == nil && ago > 0 {
		kind = "duration"
	} else if _, err := ParseTime(word, time.Now()); err != nil {
		return nil
	}
	use := fmt.Sprintf("leave it out; %q prints the past", "weir explain --since "+word)
	switch flags := cmd.Flags(); {
	case new(since).Set(word) != nil:
		use = "leave it out"
	case flags.Lookup("since") != nil:
		use = "type --since " + word
	case flags.Lookup("for") != nil && kind == "duration":
		use = "type --for " + word
	case flags.Lookup("for") != nil:
		use = "type a duration, such as --for 1h"
	}
	if what == "pool" && names.Valid(word) {
		use += fmt.Sprintf(", or for a pool of that name --pool %s", word)
	}
	return usage.New(fmt.Errorf("%q is a %s, not a %s: %s\nSee %q", word, kind, what, use, cmd.CommandPath()+" --help"))
}

// PoolRule is in the help of commands with a pool and another argument.
const PoolRule = `The pool is the first of two arguments. A single argument is the %s, for the pool of
--pool.`

// PoolThen accepts [POOL] [WHAT]: of two arguments the first is the pool, and a single one is not. LastOf returns WHAT
// of the same arguments.
func (r *Root) PoolThen(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > 2:
			return usage.New(fmt.Errorf("%s wants one %s, and a pool before it, but got %d arguments\nSee %q", cmd.CommandPath(), what, len(args), cmd.CommandPath()+" --help"))
		case len(args) == 2:
			if err := r.UsePool(cmd, args[0]); err != nil {
				return err
			}
		case len(args) == 0:
			return nil
		}
		return NotTime(cmd, args[len(args)-1], what)
	}
}

// LastOf returns the last argument alone, if there is one.
func LastOf(args []string) []string { return args[max(0, len(args)-1):] }
