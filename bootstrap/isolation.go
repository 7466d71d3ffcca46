package bootstrap

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// Users assigns each signal its own user.
type Users interface {
	// Of returns the user id for the signal at that address. It returns the same id each time, and different ids for
	// different addresses.
	Of(address string) (id int, err error)
}

// defaultSameUser is the default reason for signals that run as bootstrap's own user. It applies if Config.Users is nil and
// Config.SameUser is empty.
const defaultSameUser = "bootstrap was started without users for signals"

// runsAs returns the user of the signal's next start, which executes path. User 0 means bootstrap's own user; why is
// then the reason.
func (sig *signal) runsAs(at place, path string) (user int, why string, err error) {
	config := sig.appProcess.config
	if config.Users == nil {
		return 0, cmp.Or(config.SameUser, defaultSameUser), nil
	}
	if err := supervise.ReachableByOthers(path); err != nil {
		return 0, fmt.Sprintf("another user could not execute it: %v; or choose a data folder that all users can reach, such as /var/lib/weir", err), nil
	}
	if user, err = config.Users.Of(at.address); err != nil {
		return 0, "", fmt.Errorf("find a user for the signal at @%s: %w", at.address, err)
	}
	return user, "", nil
}

// environment returns the complete environment of the signal's next start as that user. It contains only common
// variables and those that the plan names.
func (sig *signal) environment(user int) []string {
	named := strings.Fields(sig.plan.Environment)
	env := supervise.PlainEnvironment(sig.appProcess.config.Environ, named...)
	for _, name := range named {
		if !slices.ContainsFunc(env, func(entry string) bool { return strings.HasPrefix(entry, name+"=") }) {
			sig.log.Warn("variable for the signal is not set in the environment of bootstrap", "variable", name)
		}
	}
	if user != 0 {
		// The folders of bootstrap's user do not belong to this user.
		env = slices.DeleteFunc(env, func(entry string) bool {
			name, _, _ := strings.Cut(entry, "=")
			return (name == "HOME" || name == "TMPDIR") && !slices.Contains(named, name)
		})
		if !slices.Contains(named, "HOME") {
			env = append(env, "HOME=/")
		}
		env = append(env, sigproto.PeerVariable+"="+strconv.Itoa(os.Getuid()))
	}
	return slices.Concat(env, sig.appProcess.environment())
}
