package localworld

import (
	"fmt"
	"io"
	"log/slog"
)

// reporter reports how the parts of "weir up" do. It may be used concurrently if out may.
type reporter struct {
	out io.Writer // the terminal
	log *slog.Logger
}

// print prints a line about a part.
func (r reporter) print(part, format string, args ...any) {
	fmt.Fprintf(r.out, "  %-10s %s\n", part, fmt.Sprintf(format, args...))
}

// warn prints what needs an operator, and logs it.
func (r reporter) warn(part, what string) {
	fmt.Fprintf(r.out, "! %s: %s\n", part, what)
	r.log.Warn("part needs attention", "part", part, "what", what)
}
