// Command plane is the control plane of Kubernetes for tests, in one program: etcd, kube-apiserver, kube-scheduler, and the
// controllers that scenarios need. The first argument selects the process.
//
//	plane etcd FOLDER SOCKET          serve etcd on a unix socket, without fsync
//	plane apiserver FLAGS...          kube-apiserver
//	plane scheduler FLAGS...          kube-scheduler
//	plane controllers KUBECONFIG GRACE
//	                                  run the controllers of controllers.go. A node whose kubelet is silent for
//	                                  GRACE, such as 8s, is not Ready
//
// Each is a process of its own, because flags, metrics and feature gates of Kubernetes are global. It ends with SIGTERM.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	role, args := "", []string(nil)
	if len(os.Args) > 1 {
		role, args = os.Args[1], os.Args[2:]
	}
	var err error
	switch role {
	case "apiserver":
		os.Exit(run(apiserver.NewAPIServerCommand(), args))
	case "scheduler":
		os.Exit(run(scheduler.NewSchedulerCommand(), args))
	case "etcd":
		err = withSignals(func(ctx context.Context) error { return etcd(ctx, args) })
	case "controllers":
		err = withSignals(func(ctx context.Context) error { return controllers(ctx, args) })
	default:
		err = errors.New("want etcd, apiserver, scheduler or controllers as the first argument")
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "plane %s: %v\n", role, err)
		os.Exit(1)
	}
}

// run runs a command of Kubernetes with these arguments, and returns its exit code.
func run(command *cobra.Command, args []string) int {
	command.SetArgs(args)
	return cli.Run(command)
}

// withSignals runs a function until it returns or the process is told to end.
func withSignals(run func(context.Context) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	return run(ctx)
}

// etcd serves one member until ctx ends.
func etcd(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("want FOLDER SOCKET")
	}
	c := embed.NewConfig()
	c.Dir, c.UnsafeNoFsync, c.LogLevel = args[0], true, "error"
	clients, peers := url.URL{Scheme: "unix", Path: args[1]}, url.URL{Scheme: "unix", Path: args[1] + ".peer"}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{clients}, []url.URL{clients}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peers}, []url.URL{peers}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	e, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	defer e.Close()
	select {
	case err := <-e.Err():
		return err
	case <-ctx.Done():
		return nil
	}
}
