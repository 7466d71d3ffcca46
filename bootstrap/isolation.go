package bootstrap

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// Users gives signals users of their own.
type Users interface {
	// Of returns the user id of the signal at that address: the same one each time,
	// and that of no other address.
	Of(address string) (id int, err error)
}

// SameUser is why signals run as bootstrap's own user, if Config.Users is nil and
// Config.SameUser empty.
const SameUser = "bootstrap was started without users for signals"

// runsAs returns the user of the signal's next start, which executes path. User 0 is that of
// bootstrap itself: why is what keeps the signal from having its own.
func (sig *signal) runsAs(at place, path string) (user int, why string, err error) {
	config := sig.seat.config
	if config.Users == nil {
		return 0, cmp.Or(config.SameUser, SameUser), nil
	}
	if err := ForOthers(path); err != nil {
		return 0, fmt.Sprintf("another user could not execute it: %v; or choose a data folder that all users can reach, such as /var/lib/weir", err), nil
	}
	if user, err = config.Users.Of(at.address); err != nil {
		return 0, "", fmt.Errorf("find a user for the signal at @%s: %w", at.address, err)
	}
	return user, "", nil
}

// ForOthers returns nil if each user can reach a file or folder and execute or search it:
// if all folders on the way allow it by their modes. Access lists count for nothing.
func ForOthers(path string) error {
	info, err := os.Stat(path)
	for err == nil {
		const executable fs.FileMode = 0o001
		if info.Mode()&executable == 0 {
			return fmt.Errorf("%s has mode %04o, and other users need execute permission on it", path, info.Mode().Perm())
		}
		if isSelf := path == ownProgram; isSelf || path == string(filepath.Separator) {
			return nil // the kernel does not look at the folders above a running program
		}
		path = filepath.Dir(path)
		info, err = os.Stat(path)
	}
	return err
}

// ownProgram is the program of this process, whatever its path has become.
const ownProgram = "/proc/self/exe"

// environment is the complete environment of the signal's next start, as that user. It has
// no variable that the plan does not name, beside those that every program needs.
func (sig *signal) environment(user int) []string {
	named := strings.Fields(sig.plan.Environment)
	env := supervise.PlainEnvironment(sig.seat.config.Environ, named...)
	for _, name := range named {
		if !slices.ContainsFunc(env, func(entry string) bool { return strings.HasPrefix(entry, name+"=") }) {
			sig.log.Warn("variable for the signal is not set in the environment of bootstrap", "variable", name)
		}
	}
	if user != 0 {
		// The folders of bootstrap's user are not for it.
		env = slices.DeleteFunc(env, func(entry string) bool {
			name, _, _ := strings.Cut(entry, "=")
			return (name == "HOME" || name == "TMPDIR") && !slices.Contains(named, name)
		})
		if !slices.Contains(named, "HOME") {
			env = append(env, "HOME=/")
		}
		env = append(env, sigproto.PeerVariable+"="+strconv.Itoa(os.Getuid()))
	}
	return slices.Concat(env, sig.seat.environment())
}
