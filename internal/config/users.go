package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Default range of the signals' user ids. systemd's table of ids lists them as unused. They are below 65536, so
// containers have them too.
const (
	firstUser = 60706
	lastUser  = 61183
)

// noUsers is the value of signal_users that runs signals as bootstrap's user.
const noUsers = "none"

// Users returns the range of the signals' user ids. Both are 0 if signals run as bootstrap's own user.
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
	const leastUser = 1000 // smaller ids belong to the system
	if !isRange || errFirst != nil || errLast != nil || first < leastUser || last < first || last > math.MaxInt32 {
		return 0, 0, fmt.Errorf("is %q: want a range of user ids from %d on that no account has, such as %d-%d, or %s",
			text, leastUser, firstUser, lastUser, noUsers)
	}
	return first, last, nil
}
