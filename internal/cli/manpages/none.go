//go:build !man

package manpages

import "github.com/spf13/cobra"

// Commands returns no command.
func Commands(string) []*cobra.Command { return nil }
