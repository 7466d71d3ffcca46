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
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/embedded"
	"github.com/weirkeeper/weirkeeper/metrics/lineprotocol"
	metricsstore "github.com/weirkeeper/weirkeeper/metrics/store"
)

const (
	storeGrace   = 3 * time.Second // to write data in memory to disk
	storeTimeout = 5 * time.Second // of the start of "weir up"
)

// startMetrics runs the metrics store in a separate process. If its database cannot write, it ends the process; bus,
// bucket and harmonizer continue. "weir up" restarts it after a pause. wait waits up to 5 s for its first answer. An
// error means that applications cannot write to the address.
func (u *up) startMetrics() (wait func(context.Context), err error) {
	addr, err := freeAddress("metrics over HTTP", u.options.MetricsAddr)
	if err != nil {
		return nil, err
	}
	settings := u.Settings
	settings.Data, settings.Configs = u.data, daemon.UpConfigs(u.data)
	argv := settings.Argv("metrics", "--addr", addr, "--admin-addr", config.AdminOff)
	// Use this process's program even if its file was replaced.
	argv[0] = fmt.Sprintf("/proc/%d/exe", os.Getpid())
	argv = slices.Insert(argv, 2, "serve")
	policy := supervise.DefaultPolicy()
	policy.Budget = 1000 // more than fit the window, so restarts never stop
	store := embedded.NewClient(u.bus.Conn(), u.Cluster, metricsstore.OperatorWriter)
	process, err := supervise.NewProcess(u.launcher, supervise.ProcessConfig{
		Name: "metrics", StartTimeout: upStartTimeout, Policy: policy, Log: u.log, Watch: u.watchStore(),
		Probe: func(ctx context.Context) error {
			_, err := store.Window(ctx, metrics.Query{Type: metrics.System, Name: "up"})
			return err
		},
		NewSpec: func(context.Context) (supervise.Spec, error) {
			return supervise.Spec{
				Name: "metrics", Title: "weir: metrics " + u.Cluster, Argv: argv, Env: settings.Env(),
				StopGrace: storeGrace, Lines: output.WriteLines(u.logFile, u.log.With("process", "metrics")),
			}, nil
		},
	})
	if err != nil {
		return nil, err
	}
	u.back.Run("metrics", process.Run)
	return func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, storeTimeout)
		defer cancel()
		if process.Ready(ctx) == nil {
			u.print("metrics", "http://%s%s?bucket=APP, in line protocol; its token is in %s", addr, lineprotocol.Path, daemon.MetricsToken(u.data))
			u.print("", "printf 'Authorization: Token %%s' \"$(cat '%s')\" | curl -H @- --data-binary 'NAME value=1' 'http://%s%s?bucket=APP'",
				daemon.MetricsToken(u.data), addr, lineprotocol.Path)
		}
	}, nil
}

// watchStore returns a function that prints when the store goes away and comes back.
func (u *up) watchStore() func(supervise.Status) {
	away := false
	return func(s supervise.Status) {
		switch down := s.State == supervise.Backoff || s.State == supervise.Fatal; {
		case down && !away:
			away = true
			u.warn("metrics", fmt.Sprintf("the store is away (%s), so windows are unknown and the pool does not shrink; weir up restarts it; see %s", s.Why, u.logFile.path))
		case s.State == supervise.Running && away:
			away = false
			u.print("metrics", "the store is back")
		}
	}
}

// freeAddress returns a free address with a port, which a restarted part reuses.
func freeAddress(part, addr string) (string, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return "", fmt.Errorf("%s: %w; choose another address", part, err)
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}
