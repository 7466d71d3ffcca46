package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
)

// versionFlags are the flags of "weir app set" about readiness, environment, ports, updates, places and work that ends.
type versionFlags struct {
	http, tcp, exec string
	after, within   time.Duration
	restartUnready  bool
	noReady         bool
	env             []string
	ports           []string
	surge           string
	stopAfter       int
	oneShot         bool
	spread          string
	atMost          int
	retries         int
}

func (f *versionFlags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&f.http, "ready-http", "", "PORT[/PATH]: an instance is ready if this responds with a status from 200 to 399")
	fs.StringVar(&f.tcp, "ready-tcp", "", "PORT: an instance is ready if this port accepts a connection")
	fs.StringVar(&f.exec, "ready-exec", "", "an instance is ready if this command exits with 0, run by /bin/sh -c in its folder")
	command.DurationVar(fs, &f.after, "ready-after", 0, "time before an instance can be ready (default 10s without a check, 0s with one)")
	command.DurationVar(fs, &f.within, "ready-within", 0, "time in which a new instance must be ready, or the update halts (default 5m)")
	fs.BoolVar(&f.restartUnready, "restart-unready", false, "end an instance whose check fails after it was ready, so that it is started again")
	fs.BoolVar(&f.noReady, "no-ready", false, "remove all of --ready-..., so that an instance is ready 10s after its start")
	fs.StringArrayVar(&f.env, "env", nil, "NAME=VALUE for the command, or NAME- to remove it; can be repeated")
	fs.StringArrayVar(&f.ports, "port", nil, "NAME=NUMBER or NAME=auto for a port of an instance, in $PORT and $PORT_NAME, or NAME- to remove it; can be repeated")
	fs.BoolVar(&f.oneShot, "one-shot", false, "the command ends: exit code 0 is done, and not started again in this version")
	fs.IntVar(&f.retries, "retries", 0, "how often an instance with --one-shot is started again after another exit code (default 3)")
	fs.StringVar(&f.spread, "spread", "", "node or zone: what a new instance goes to first, the one with the fewest instances (default node)")
	fs.IntVar(&f.atMost, "at-most-per-node", 0, "at most so many instances on one machine; 0: any number")
	fs.StringVar(&f.surge, "max-surge", "", "how many indices may change at once during an update, as 2 or 25% (default 25%)")
	fs.IntVar(&f.stopAfter, "stop-after", 0, "after how many crashes of the new version an update halts (default 1)")
}

// apply changes the row by the flags that are set.
func (f *versionFlags) apply(row *api.App, changed func(string) bool) error {
	if err := f.applyPorts(row); err != nil {
		return usage.New(err)
	}
	if err := f.applyReady(row, changed); err != nil {
		return usage.New(err)
	}
	if err := f.applyEnv(row); err != nil {
		return usage.New(err)
	}
	if changed("one-shot") {
		if row.OneShot = f.oneShot; !f.oneShot {
			row.Retries = nil
		}
	}
	if changed("retries") {
		row.Retries = &f.retries
	}
	f.applySpread(row, changed)
	if !changed("max-surge") && !changed("stop-after") {
		return nil
	}
	var u api.Update
	if row.Update != nil {
		u = *row.Update
	}
	if changed("stop-after") {
		u.StopAfter = f.stopAfter
	}
	if changed("max-surge") {
		var err error
		if u.MaxSurge, err = api.ParseShare(f.surge); err != nil {
			return usage.New(fmt.Errorf("--max-surge %w", err))
		}
	}
	row.Update = &u
	return nil
}

func (f *versionFlags) applyReady(row *api.App, changed func(string) bool) error {
	if f.noReady {
		row.Ready = nil
	}
	var r api.Readiness
	if row.Ready != nil {
		r = *row.Ready
	}
	checks, any := 0, false
	for flag, set := range map[string]func() error{
		"ready-http": func() (err error) { r.HTTP, err = httpCheck(f.http); return err },
		"ready-tcp": func() (err error) {
			r.TCP = &api.TCPCheck{}
			r.TCP.Port, err = portOf("--ready-tcp", f.tcp)
			return err
		},
		"ready-exec": func() error { r.Exec = &api.ExecCheck{Command: f.exec}; return nil },
	} {
		if !changed(flag) {
			continue
		}
		if checks++; checks > 1 {
			return errors.New("use one of --ready-http, --ready-tcp and --ready-exec")
		}
		r.HTTP, r.TCP, r.Exec, any = nil, nil, nil, true
		if err := set(); err != nil {
			return err
		}
	}
	if changed("ready-after") {
		after := api.Duration(f.after)
		r.After, any = &after, true
	}
	if changed("ready-within") {
		r.Within, any = api.Duration(f.within), true
	}
	if changed("restart-unready") {
		r.RestartUnready, any = f.restartUnready, true
	}
	if any {
		row.Ready = &r
	}
	return nil
}

// httpCheck decodes PORT[/PATH].
func httpCheck(text string) (*api.HTTPCheck, error) {
	port, path, _ := strings.Cut(text, "/")
	n, err := portOf("--ready-http", port)
	if err != nil {
		return nil, err
	}
	if _, err := url.ParseRequestURI("/" + path); err != nil {
		return nil, fmt.Errorf("--ready-http %q: want PORT or PORT/PATH", text)
	}
	return &api.HTTPCheck{Port: n, Path: "/" + path}, nil
}

// portOf decodes the number of a port, or the name of one of --port.
func portOf(flag, text string) (api.PortRef, error) {
	if text != "" && (text[0] < '0' || text[0] > '9') && text[0] != '-' {
		return api.PortRef{Name: text}, nil
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return api.PortRef{}, fmt.Errorf("%s %q: want a port from 1 to 65535, or the name of a port of --port", flag, text)
	}
	return api.PortRef{Number: int(n)}, nil
}

func (f *versionFlags) applySpread(row *api.App, changed func(string) bool) {
	var s api.Spread
	if row.Spread != nil {
		s = *row.Spread
	}
	if changed("spread") {
		s.By = api.SpreadBy(f.spread)
	}
	if changed("at-most-per-node") {
		s.AtMostPerNode = f.atMost
	}
	if row.Spread = &s; s == (api.Spread{}) {
		row.Spread = nil
	}
}

// applyPorts sets and removes ports by their names. A new one is the last one.
func (f *versionFlags) applyPorts(row *api.App) error {
	ports := slices.Clone(row.Ports)
	for _, entry := range f.ports {
		name, number, set := strings.Cut(entry, "=")
		removed, remove := strings.CutSuffix(entry, "-")
		i := slices.IndexFunc(ports, func(p api.Port) bool { return p.Name == name || !set && p.Name == removed })
		if !set && remove {
			if i >= 0 {
				ports = slices.Delete(ports, i, i+1)
			}
			continue
		}
		port := api.Port{Name: name, Port: api.AutoPort}
		if number != api.AutoPort.String() {
			n, err := strconv.ParseUint(number, 10, 16)
			if err != nil || n == 0 || name == "" {
				return fmt.Errorf("--port %q: want NAME=NUMBER with a number from 1 to 65535, NAME=auto, or NAME- to remove it", entry)
			}
			port.Port = api.PortNumber(n)
		}
		if i >= 0 {
			ports[i] = port
		} else {
			ports = append(ports, port)
		}
	}
	if row.Ports = ports; len(ports) == 0 {
		row.Ports = nil
	}
	return nil
}

func (f *versionFlags) applyEnv(row *api.App) error {
	if len(f.env) == 0 {
		return nil
	}
	env := maps.Clone(row.Env)
	if env == nil {
		env = map[string]string{}
	}
	for _, entry := range f.env {
		name, value, set := strings.Cut(entry, "=")
		removed, remove := strings.CutSuffix(entry, "-")
		switch {
		case set && name != "":
			env[name] = value
		case !set && remove:
			delete(env, removed)
		default:
			return fmt.Errorf("--env %q: want NAME=VALUE, or NAME- to remove it", entry)
		}
	}
	row.Env = env
	return nil
}

// withVersion completes a changed row: if its content has changed, and no earlier version was set, it gets the version of its content.
func withVersion(old, changed api.App, now time.Time) api.App {
	if version := message.VersionOf(changed); changed.Version == old.Version && version != message.VersionOf(old) {
		changed.Version = version
	}
	return withHistory(old, changed, now)
}

// withHistory completes a changed row that has its version. The version before goes to the history. The oldest ones are dropped if the row
// is too long.
func withHistory(old, changed api.App, now time.Time) api.App {
	next := old.WithVersion(changed.Live())
	next.Name, next.Pool, next.Instances, next.State, next.Package = changed.Name, changed.Pool, changed.Instances, changed.State, changed.Package
	next.Labels, next.Update, next.Updated = changed.Labels, changed.Update, now.UTC()
	next.OneShot, next.Retries, next.Spread = changed.OneShot, changed.Retries, changed.Spread
	for len(next.History) > 0 {
		if text, err := json.Marshal(next); err != nil || len(text) <= message.MaxRow {
			break
		}
		next.History = next.History[:len(next.History)-1]
	}
	return next
}

// waitPeriod is the time between two requests for the state of an update.
const waitPeriod = 500 * time.Millisecond

// waitReady prints the progress of an application until each index has a ready instance of the version, or its work is done. The
// error of a halted update, and of work that failed, has the reason.
func waitReady(ctx context.Context, b *bus.Bus, cli *commands, row api.App) error {
	again := time.NewTicker(waitPeriod)
	defer again.Stop()
	last := ""
	for {
		line, ended, err := progressNow(ctx, b, cli.Cluster, row)
		if line != "" && line != last {
			fmt.Fprintln(cli.Stdout, line)
			last = line
		}
		if ended || err != nil {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w: the update goes on; see \"weir app status %s\"", row.Name, context.Cause(ctx), row.Name)
		}
	}
}

// progressNow is progressOf for what the harmonizer reports now. While it has not read the row, there is no line.
func progressNow(ctx context.Context, b *bus.Bus, cluster string, row api.App) (line string, ended bool, err error) {
	s, err := requestHarmonizer(ctx, b, cluster, api.HarmonizerQuery{App: row.Name})
	if errors.Is(err, errNoApp) {
		_, _, err = readApp(ctx, b, cluster, row.Name)
		return "", false, err
	}
	if err != nil {
		return "", false, err
	}
	return progressOf(*s.App, row)
}

// progressOf returns a line about an application, whether what its row requests is complete, and the error of what has failed.
func progressOf(e api.AppExplanation, row api.App) (line string, ended bool, err error) {
	if row.State == api.AppStopped {
		return fmt.Sprintf("%s: stopped, %s left", row.Name, prose.Count(e.Count.Extra, "instance")), e.State == row.State && e.Count.Extra == 0, nil
	}
	same := e.Version == row.Version
	if n := e.Count; row.OneShot {
		if same && n.Failed > 0 && n.Done+n.Failed >= row.Instances {
			err = errors.New(view.FailedLine(row.Name, n))
		}
		if !same {
			return "", false, nil
		}
		return fmt.Sprintf("%s: %s", row.Name, view.WorkOf(n)), n.Done >= row.Instances, err
	}
	ready, more, halted := progress(e, row)
	if halted != nil {
		return "", false, errors.New(halted.String(row.Name))
	}
	line = fmt.Sprintf("%s: %d of %d instances of version %s are ready%s", row.Name, ready, row.Instances, row.Version, more)
	return line, ready >= row.Instances && e.Update == nil && same, nil
}

// progress returns how many indices have a ready instance of the row's version, what earlier versions run, and why the update is
// halted.
func progress(e api.AppExplanation, row api.App) (ready int, more string, halted *api.HaltedUpdate) {
	if e.Update != nil && e.Update.Halted != nil && e.Update.Halted.Version == row.Version {
		return 0, "", e.Update.Halted
	}
	earlier := 0
	for _, i := range e.Indices {
		is := false
		for _, c := range i.Instances {
			good := c.State == api.CopyRunning && !c.Unready && c.Absent.IsZero() && c.Silent.IsZero()
			is = is || good && c.Version == row.Version
			if good && c.Version != row.Version {
				earlier++
			}
		}
		if is && i.Desired {
			ready++
		}
	}
	if earlier > 0 {
		more = fmt.Sprintf(", %d of earlier versions serve", earlier)
	}
	return ready, more, nil
}
