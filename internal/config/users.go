package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// The user ids of signals, if the service file names none. systemd's table of ids calls them
// unused, and they are below 65536: containers have them too.
const (
	firstUser = 60706
	lastUser  = 61183
)

// noUsers is the value of signal_users by which signals run as bootstrap's user.
const noUsers = "none"

// Users returns the range of the user ids that signals run as. Both are 0 if the file has
// them run as bootstrap's own user.
func (s Service) Users() (first, last int) {
	first, last, _ = parseUsers(s.SignalUsers) // Validate returns the error
	return first, last
}

func parseUsers(text string) (first, last int, err error) {
	switch text {
	case "":
		return firstUser, lastUser, nil
	case noUsers:
		return 0, 0, nil
	}
	low, high, isRange := strings.Cut(text, "-")
	first, errFirst := strconv.Atoi(low)
	last, errLast := strconv.Atoi(high)
	const leastUser = 1000 // below are the users of the system
	if !isRange || errFirst != nil || errLast != nil || first < leastUser || last < first || last > math.MaxInt32 {
		return 0, 0, fmt.Errorf("is %q: want a range of user ids from %d on that no account has, such as %d-%d, or %s",
			text, leastUser, firstUser, lastUser, noUsers)
	}
	return first, last, nil
}
