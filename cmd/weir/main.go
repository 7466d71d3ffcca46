// Command weir scales pools of machines, keeps the configured number of application
// instances running, and repairs unhealthy machines. "weir help" lists its commands.
//
// The daemons run by "weir bootstrap", "weir harmonizer", "weir placer" and "weir agent".
// All other commands print data or send an order, and end. A process runs one command.
package main

import (
	"os"
	_ "time/tzdata" // for calendars, on hosts without zone files

	"github.com/weirkeeper/weirkeeper/internal/cli"
)

func main() { os.Exit(cli.Main()) }
