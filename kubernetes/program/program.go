// Package program is weir-kubernetes: it reads the configuration, connects to the API server and to NATS, and runs the adapter.
//
// [Main] has the whole program, so that a test can run it. It returns when its context ends, and then changes nothing more: nodes that
// are cordoned stay so, and the next process continues with their drains.
//
// Each pool has a connection of its own to NATS, with the role "scheduler" of that pool. A process runs one Main at a time.
package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"

	"k8s.io/klog/v2"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/kubernetes/adapter"
	"github.com/weirkeeper/weirkeeper/kubernetes/kube"
	"github.com/weirkeeper/weirkeeper/metrics/embedded"
	"github.com/weirkeeper/weirkeeper/metrics/store"
)

const name = "weir-kubernetes"

// garbage is the percentage of garbage that the process allows. Most of its memory is the trimmed objects, which stay, and a list of
// all objects makes much garbage.
const garbage = 40

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

const help = `Run the scheduler of Weirkeeper's pools in one cluster of Kubernetes.

It reports the nodes of each pool and the pods that wait for a machine, cordons
nodes on the order of the pool's autoscaler, and evicts their pods under their
disruption budgets. It schedules no pods.

Usage:
  weir-kubernetes --config FILE [--check]

Examples:
  weir-kubernetes --config /etc/weirkeeper/kubernetes.yaml
  weir-kubernetes --config kubernetes.yaml --check

A file:
  cluster: prod                     # of Weirkeeper
  nats:
    servers: [tls://nats.weirkeeper:4222]
    nkey_file: keys/scheduler-{pool}.nk
    tls: {ca_file: ca.pem}
  pools:
    web:                            # nodes with the label weirkeeper.dev/pool=web
      default: true                 # pods that select no pool wait for its machines
    gpu:
      selector: {eks.amazonaws.com/nodegroup: gpu}
      startup_taints: [example.com/driver-missing]
      machines:                     # what the pool can add while it has no node
        - {cpus: 8, mem: 32000, gpus: 1, labels: {gpu: "true"}, taints: [{key: gpu}]}

Keys with their defaults:
  kubernetes: {server, ca_file, token_file}   the service account of the pod
  period: 10s                 between two heartbeats of a node
  grace: 3s                   a pod waits so long until it counts
  stale: 150s                 a watch without an event or bookmark is not current
  metrics: embedded           the store of the pending resources, or none
  lease: true                 of several processes, one acts for a pool
  delete_ended_nodes: true    delete the Node of a machine that has ended
  admin: {addr: 127.0.0.1:9490, token_file}   /healthz /readyz /metrics /status

Flags:
`

// Main runs the program until ctx ends, and returns its exit code.
func Main(ctx context.Context, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	path := flags.String("config", "", "`FILE` with the configuration")
	check := flags.Bool("check", false, "check the configuration, and end")
	version := flags.Bool("version", false, "print the version")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(out, help)
		flags.SetOutput(out)
		flags.PrintDefaults()
		return 0
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case err == nil && *path == "" && !*version:
		err = errors.New("give --config FILE")
	}
	if err != nil {
		fmt.Fprintf(errs, "%s: %v; \"%s --help\" has an example\n", name, err, name)
		return exitUsage
	}
	if *version {
		fmt.Fprintln(out, name, buildVersion())
		return 0
	}
	f, err := readFile(*path)
	if err != nil {
		fmt.Fprintf(errs, "%s: %v\n", name, err)
		return exitUsage
	}
	if *check {
		fmt.Fprintf(out, "%s: %d pools, no mistakes\n", *path, len(f.Pools))
		return 0
	}
	debug.SetGCPercent(garbage)
	log := slog.New(slog.NewTextHandler(errs, nil))
	klog.SetSlogLogger(log)
	if err := run(ctx, f, out, log); err != nil {
		fmt.Fprintf(errs, "%s: %v\n", name, err)
		return exitFailed
	}
	return 0
}

// run connects to everything, and serves until ctx ends.
func run(ctx context.Context, f file, out io.Writer, log *slog.Logger) error {
	client, err := kube.New(f.Kubernetes.kube())
	if err != nil {
		return err
	}
	c := f.adapter()
	c.Log = log
	for i := range c.Pools {
		b, err := connect(ctx, f, c.Pools[i].Name, log)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("pool %s: %w", c.Pools[i].Name, err)
		}
		defer b.Close()
		c.Pools[i].Conn = b.Conn()
		if *f.Lease {
			c.Pools[i].Lease, err = state.NewLease(b.JetStream(), state.LeaseConfig{
				Bucket: names.PlacerBucket(f.Cluster, c.Pools[i].Name), Holder: holder(), Replicas: b.Replicas(), Log: log,
			})
			if err != nil {
				return fmt.Errorf("pool %s: %w", c.Pools[i].Name, err)
			}
		}
		if f.Metrics == storeEmbedded {
			c.Pools[i].Sink = embedded.NewClient(b.Conn(), f.Cluster, store.PlacerWriter(c.Pools[i].Name))
		}
	}
	a, err := adapter.New(c, client)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	web, err := serveAdmin(f.Admin, a, out, log)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := web.run(ctx); err != nil {
			end(err)
		}
	})
	err = a.Run(ctx)
	end(err)
	wg.Wait()
	if cause := context.Cause(ctx); err == nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	return err
}

// holder names this process in leases. A container that starts again in its pod has the same name, and need not wait.
func holder() string {
	host, err := os.Hostname()
	if err != nil {
		host = name
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}

// connect connects to NATS as the scheduler of a pool. It waits while no server is reached.
func connect(ctx context.Context, f file, pool string, log *slog.Logger) (*bus.Bus, error) {
	return bus.Find(ctx, bus.Config{
		NATS: f.NATS, Name: name + " " + pool, User: roles.User{Role: roles.Scheduler, Cluster: f.Cluster, Pool: pool}, Wait: true, Log: log.With("pool", pool),
	})
}

// buildVersion returns the version of the module, or the revision that it was built from.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	return info.Main.Version
}
