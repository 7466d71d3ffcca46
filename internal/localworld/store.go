package localworld

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise/output"
	"github.com/weirkeeper/weirkeeper/internal/command"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/embedded"
	"github.com/weirkeeper/weirkeeper/metrics/lineprotocol"
)

const (
	storeGrace    = 3 * time.Second // to write what is in memory
	storePatience = 5 * time.Second // of the start of "weir up" for its metrics
)

// startMetrics runs the metrics store as a process of its own: its database ends the
// process if it cannot write, and bus, bucket and harmonizer go on then. It is started
// again after a pause, for as long as "weir up" runs. wait waits until it answers, for a
// while. The error is that applications cannot write to the address.
func (u *up) startMetrics() (wait func(context.Context), err error) {
	addr, err := freeAddress("metrics over HTTP", u.options.MetricsAddr)
	if err != nil {
		return nil, err
	}
	settings := u.Settings
	settings.Data, settings.Configs = u.data, command.UpConfigs(u.data)
	argv := settings.Argv("metrics", "--addr", addr)
	// The program of this process, also if another has its path by now.
	argv[0] = fmt.Sprintf("/proc/%d/exe", os.Getpid())
	argv = slices.Insert(argv, 2, "serve")
	policy := supervise.DefaultPolicy()
	policy.Budget = 1000 // more than fit its window: it is never given up
	store := embedded.NewClient(u.bus.Conn(), u.Cluster)
	process, err := supervise.NewProcess(u.launcher, supervise.ProcessConfig{
		Name: "metrics", StartTimeout: upPatience, Policy: policy, Log: u.log, Watch: u.watchStore(),
		Probe: func(ctx context.Context) error {
			_, err := store.Window(ctx, metrics.Query{Type: metrics.System, Name: "up"})
			return err
		},
		NewSpec: func(context.Context) (supervise.Spec, error) {
			return supervise.Spec{
				Name: "metrics", Title: "weir: metrics " + u.Cluster, Argv: argv, Env: settings.Env(),
				StopGrace: storeGrace, Lines: output.WriteLines(u.logFile),
			}, nil
		},
	})
	if err != nil {
		return nil, err
	}
	u.back.Run("metrics", process.Run)
	return func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, storePatience)
		defer cancel()
		if process.Ready(ctx) == nil {
			u.print("metrics", "http://%s%s?bucket=APP, in line protocol", addr, lineprotocol.Path)
		}
	}, nil
}

// watchStore returns what prints that the store is away, and that it is back.
func (u *up) watchStore() func(supervise.Status) {
	away := false
	return func(s supervise.Status) {
		switch down := s.State == supervise.Backoff || s.State == supervise.Fatal; {
		case down && !away:
			away = true
			u.warn("metrics", fmt.Sprintf("the store is away (%s), so windows are unknown and the pool does not shrink; it is tried again; see %s", s.Why, u.logFile.Name()))
		case s.State == supervise.Running && away:
			away = false
			u.print("metrics", "the store is back")
		}
	}
}

// freeAddress returns an address that is free to listen on, with its port, which the part
// keeps when it is started again.
func freeAddress(part, addr string) (string, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return "", fmt.Errorf("%s: %w; choose another address", part, err)
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}
