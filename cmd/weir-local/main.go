// Command weir-local runs the local world: "weir up" and "weir metrics serve"
// replace themselves with it. The file is installed beside weir, and starts all daemons with it.
//
// So the production binary does not contain the S3 server and the database. People run "weir
// up". They run this program directly only for "weir-local aws", a trial of pools on AWS without
// AWS. It is one process, which ends with its children.
package main

import (
	"os"

	"github.com/weirkeeper/weirkeeper/internal/cli/localworld"
)

func main() {
	os.Exit(localworld.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
