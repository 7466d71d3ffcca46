package command

import (
	"os"
	"os/user"
)

// Operator returns USER@HOST of the person that runs the command.
func Operator() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}
