package signaltest

import (
	"fmt"
	"os"
	"strings"
)

// withSimilarSocket adds to an error the socket that the signal seems to have created instead, and the probable mistake.
func (w socketArgs) withSimilarSocket(err error) error {
	table, readErr := os.ReadFile("/proc/net/unix")
	if readErr != nil {
		return err // without the table the error stays as it is
	}
	name := w.similar(string(table))
	if name == "" {
		return err
	}
	return &adviceError{fmt.Errorf("%w; /proc/net/unix lists a similar name, %q, where @ means NUL", err, name), w.advice(name)}
}

// similar returns the name of a socket that contains this signal's name, in the kernel's notation: @ for a NUL.
func (w socketArgs) similar(table string) string {
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); len(fields) == 8 && strings.Contains(fields[7], w.name) {
			return fields[7]
		}
	}
	return ""
}

// advice returns the probable cause of that name.
func (w socketArgs) advice(name string) string {
	want := "@" + w.address()
	switch {
	case strings.TrimRight(name, "@") == want:
		return "the name must not end with NUL bytes: bind exactly the bytes of the name (C: pass the length of the name, not sizeof, to bind)"
	case strings.HasSuffix(name, w.address()):
		return `the socket must be in the abstract namespace: its name begins with one NUL byte, and is no path (Python: sock.bind("\0" + name))`
	}
	return `make the name of the last three arguments, in this order: "\0" + NAMESPACE + "-" + NAME + "-" + APP + "-socket"`
}
