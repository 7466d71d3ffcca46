package sigproto

import (
	"errors"
	"fmt"
	"net"
	"strings"
)

// MaxAddress is the maximum length of an address, in bytes.
const MaxAddress = 107

// DefaultApp is the app part of the default signal's address.
const DefaultApp = "__default__"

// Address returns the name of a signal's socket, without the leading NUL byte.
func Address(namespace, name, app string) string {
	return namespace + "-" + name + "-" + app + "-socket"
}

// advisorMark stands between the app and the name of an advisor.
const advisorMark = "~"

// AdvisorApp returns the app part of an advisor's address: "APP~NAME".
func AdvisorApp(app, name string) string { return app + advisorMark + name }

// AppOf returns the application in the third argument of a signal. It has more parts for an advisor, and for a second process.
func AppOf(argument string) string {
	app, _, _ := strings.Cut(argument, advisorMark)
	return app
}

// Listen opens a signal's end on the abstract socket with that name, behind a [Guard]. It fails while another process
// listens there.
func Listen(address string) (net.Listener, error) {
	if err := checkAddress(address); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", "@"+address)
	if err != nil {
		return nil, fmt.Errorf("listen on abstract socket %q: %w", address, err)
	}
	return Guard(l), nil
}

func checkAddress(address string) error {
	switch {
	case address == "":
		return errors.New("the socket's address is empty")
	case len(address) > MaxAddress:
		return fmt.Errorf("socket address %q has %d bytes, the kernel accepts at most %d: shorten the namespace, the name or the app",
			address, len(address), MaxAddress)
	case strings.ContainsRune(address, 0):
		return fmt.Errorf("socket address %q contains a NUL byte", address)
	}
	return nil
}
