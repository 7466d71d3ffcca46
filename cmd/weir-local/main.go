// Command weir-local runs the local world: "weir up" and "weir metrics serve"
// replace themselves with it. The file is installed beside weir, and starts all daemons with it.
package main

import (
	"os"

	"github.com/weirkeeper/weirkeeper/internal/localworld"
)

func main() {
	os.Exit(localworld.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
