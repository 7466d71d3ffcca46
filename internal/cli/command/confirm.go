package command

import (
	"fmt"

	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
)

// Confirm returns an error with what a command is about to do, unless --yes was given.
func Confirm(yes bool, what string) error {
	if yes {
		return nil
	}
	return usage.New(fmt.Errorf("%s; nothing is changed yet: repeat the command with --yes", what))
}
