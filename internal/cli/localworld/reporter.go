package localworld

import (
	"fmt"
	"io"
	"log/slog"
)

// reporter reports the state of the parts of "weir up". It is safe for concurrent use if out is.
type reporter struct {
	out io.Writer // the terminal
	log *slog.Logger
}

// print prints a line about a part.
func (r reporter) print(part, format string, args ...any) {
	fmt.Fprintf(r.out, "  %-10s %s\n", part, fmt.Sprintf(format, args...))
}

// warn prints and logs a problem that needs an operator.
func (r reporter) warn(part, what string) {
	fmt.Fprintf(r.out, "! %s: %s\n", part, what)
	r.log.Warn("part needs attention", "part", part, "what", what)
}
