// Command weir-kubernetes is the scheduler of Weirkeeper's pools in one cluster of Kubernetes: it reports the nodes and the pods
// that wait, and drains nodes. "weir-kubernetes --help" has its flags and an example of its file.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/weirkeeper/weirkeeper/kubernetes/program"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := program.Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
