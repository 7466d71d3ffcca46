package autoscalerd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
)

// bootstrapDirectory adapts bootstrap's stream to ask.Directory.
type bootstrapDirectory struct{ *bootstrap.Reader }

// Listing implements ask.Directory.
func (d bootstrapDirectory) Listing() ask.Listing {
	latest, changed := d.Directory()
	l := ask.Listing{
		Revision: latest.Revision, Changed: changed,
		Endpoints: map[string]ask.Endpoint{}, Candidates: map[string]ask.Candidate{},
	}
	for _, e := range latest.Signals {
		l.Endpoints[e.App] = endpointOf(e.Endpoint)
		if c := e.Candidate; c != nil {
			l.Candidates[e.App] = ask.Candidate{Endpoint: endpointOf(c.Endpoint), Shadow: c.Shadow, Tolerance: c.Tolerance}
		}
	}
	return l
}

func endpointOf(e bootstrap.Endpoint) ask.Endpoint {
	out := ask.Endpoint{Address: e.Address, Group: e.Group, Version: e.Version, Columnar: e.Columnar, Down: e.Down, Yanked: e.Yanked}
	var err error
	if out.Request, err = config.DecodeRequestSpec(e.RequestConfig); err != nil {
		out.Down = err.Error()
	}
	return out
}

// Report implements ask.Directory.
func (d bootstrapDirectory) Report(r ask.Report) {
	out := bootstrap.Report{Revision: r.Revision}
	for _, a := range r.Results {
		if a.Verdict == api.VerdictNotRequested {
			continue // it has no information about the signal
		}
		out.Answers = append(out.Answers, bootstrap.Answer{
			App: a.App, Version: a.Version, Address: a.Address, Group: a.Group, Candidate: a.Candidate,
			Verdict: string(a.Verdict), Why: a.Why, Silent: a.Silent, Compared: a.Compared, Difference: a.Difference,
		})
	}
	d.Reader.Report(out)
}

// Alive implements ask.Directory.
func (d bootstrapDirectory) Alive() { d.Reader.Report(bootstrap.Report{}) }

// staticDirectory is the fixed directory of an autoscaler that was started by hand, from the files.
type staticDirectory struct{ listing ask.Listing }

func fixedDirectory(s config.Service, p config.Pool) staticDirectory {
	l := ask.Listing{Endpoints: map[string]ask.Endpoint{}}
	for _, signal := range config.Bootstrap(s, p).Signals {
		l.Endpoints[signal.App] = ask.Endpoint{Address: signal.Address, Version: signal.Version}
	}
	return staticDirectory{l}
}

// Listing implements ask.Directory.
func (d staticDirectory) Listing() ask.Listing { return d.listing }

// Report implements ask.Directory. It does nothing.
func (staticDirectory) Report(ask.Report) {}

// Alive implements ask.Directory.
func (staticDirectory) Alive() {}

// RunUnderBootstrap runs the autoscaler under the bootstrap that started this process. It uses the directory stream
// at descriptor fd and ends with the stream.
func (p Process) RunUnderBootstrap(ctx context.Context, fd int) error {
	if err := supervise.Hide(); err != nil {
		return err
	}
	unix.CloseOnExec(fd)
	if err := unix.SetNonblock(fd, true); err != nil { // so that Close ends a read
		return fmt.Errorf("descriptor %d of bootstrap's directory: %w", fd, err)
	}
	stream := os.NewFile(uintptr(fd), "directory")
	reader := bootstrap.NewReader()
	parts := daemon.NewServices(ctx)
	parts.Run("directory", func(ctx context.Context) error {
		stop := context.AfterFunc(ctx, func() { stream.Close() })
		defer stop()
		return reader.Run(stream)
	})
	return parts.Stop(func() error {
		select {
		case <-reader.First():
		case <-parts.Context().Done():
			return nil // Stop returns the reason
		case <-time.After(firstTimeout):
			return errors.New("no message from bootstrap on the directory stream within 3s")
		}
		f := &follower{reader: reader, configs: p.Configs, dryRun: p.DryRun}
		a, err := f.read()
		if err != nil {
			return err
		}
		return p.run(parts.Context(), a)
	}())
}

// follower keeps a loop at the files that bootstrap has validated.
type follower struct {
	reader  *bootstrap.Reader
	configs string
	dryRun  bool
	text    []byte // the last decoded configuration
	running autoscaling
}

// read decodes the last files from bootstrap.
func (f *follower) read() (autoscaling, error) {
	latest, _ := f.reader.Directory()
	var files config.Files
	if err := json.Unmarshal(latest.Config, &files); err != nil {
		return autoscaling{}, fmt.Errorf("read the files that bootstrap sent: %w", err)
	}
	service, pool, err := files.Decode()
	if err != nil {
		return autoscaling{}, fmt.Errorf("read the files that bootstrap sent: %w", err)
	}
	f.text = latest.Config
	f.running = autoscaling{
		service: service, pool: pool, configs: f.configs, dryRun: f.dryRun,
		directory: bootstrapDirectory{f.reader}, follow: f.run, refresh: f.refresh,
	}
	return f.running, nil
}

// refresh is read for a new term in a running process.
func (f *follower) refresh() (autoscaling, error) {
	before := f.running
	after, err := f.read()
	if err == nil && !sameDependencies(before, after) {
		err = ErrRestartNeeded
	}
	return after, err
}

// ErrRestartNeeded: dependencies of the loop changed in the files. The process ends with bootstrap.ExitRestart, and
// bootstrap restarts it at once.
var ErrRestartNeeded = errors.New("resource_groups, health, aws, metrics, sources, telemetry, prices or autoscaling.lease of the files have changed: the autoscaler restarts")

// run applies changed files until ctx ends.
func (f *follower) run(ctx context.Context, l *autoscaler.Loop) error {
	for {
		latest, changed := f.reader.Directory()
		if !bytes.Equal(latest.Config, f.text) {
			before := f.running
			after, err := f.read()
			if err != nil {
				return err
			}
			if !sameDependencies(before, after) {
				return ErrRestartNeeded
			}
			if err := l.Reconfigure(after.config()); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// sameDependencies reports whether the loop's dependencies are the same in both files.
func sameDependencies(before, after autoscaling) bool {
	return reflect.DeepEqual(before.pool.Groups, after.pool.Groups) &&
		reflect.DeepEqual(before.pool.Draining.Spot, after.pool.Draining.Spot) &&
		reflect.DeepEqual(before.pool.Health, after.pool.Health) &&
		reflect.DeepEqual(before.service.AWS, after.service.AWS) && reflect.DeepEqual(before.service.Clusters, after.service.Clusters) &&
		reflect.DeepEqual(before.service.Metrics, after.service.Metrics) && reflect.DeepEqual(before.service.Prices, after.service.Prices) && reflect.DeepEqual(before.service.Sources, after.service.Sources) &&
		reflect.DeepEqual(before.service.Telemetry, after.service.Telemetry) &&
		config.Lease(before.service, before.pool) == config.Lease(after.service, after.pool)
}
