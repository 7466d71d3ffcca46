// Command weir holds pools of machines at their size, applications at their
// count and machines in health. "weir help" lists its commands.
package main

import (
	"os"

	"github.com/weirkeeper/weirkeeper/internal/command"
)

func main() {
	command.NameProcess(os.Args[0])
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
