package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
)

// versionFlags are the flags of "weir app set" about readiness, environment and updates.
type versionFlags struct {
	http, tcp, exec string
	after, within   time.Duration
	restartUnready  bool
	noReady         bool
	env             []string
	surge           string
	stopAfter       int
}

func (f *versionFlags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&f.http, "ready-http", "", "PORT[/PATH]: an instance is ready if this responds with a status from 200 to 399")
	fs.StringVar(&f.tcp, "ready-tcp", "", "PORT: an instance is ready if this port accepts a connection")
	fs.StringVar(&f.exec, "ready-exec", "", "an instance is ready if this command exits with 0, run by /bin/sh -c in its folder")
	fs.DurationVar(&f.after, "ready-after", 0, "time before an instance can be ready (default 10s without a check, 0s with one)")
	fs.DurationVar(&f.within, "ready-within", 0, "time in which a new instance must be ready, or the update halts (default 5m)")
	fs.BoolVar(&f.restartUnready, "restart-unready", false, "end an instance whose check fails after it was ready, so that it is started again")
	fs.BoolVar(&f.noReady, "no-ready", false, "remove all of --ready-..., so that an instance is ready 10s after its start")
	fs.StringArrayVar(&f.env, "env", nil, "NAME=VALUE for the command, or NAME- to remove it; can be repeated")
	fs.StringVar(&f.surge, "max-surge", "", "how many indices may change at once during an update, as 2 or 25% (default 25%)")
	fs.IntVar(&f.stopAfter, "stop-after", 0, "after how many crashes of the new version an update halts (default 1)")
}

// apply changes the row by the flags that are set.
func (f *versionFlags) apply(row *api.App, changed func(string) bool) error {
	if err := f.applyReady(row, changed); err != nil {
		return usage.New(err)
	}
	if err := f.applyEnv(row); err != nil {
		return usage.New(err)
	}
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

func portOf(flag, text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%s %q: want a port from 1 to 65535", flag, text)
	}
	return int(n), nil
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

// waitReady prints the progress of an application until each index has a ready instance of the version. The error of a halted update
// has the reason.
func waitReady(ctx context.Context, b *bus.Bus, cli *commands, row api.App) error {
	again := time.NewTicker(waitPeriod)
	defer again.Stop()
	last := ""
	for {
		s, err := requestHarmonizer(ctx, b, cli.Cluster, api.HarmonizerQuery{App: row.Name})
		if err != nil {
			return err
		}
		ready, more, halted := progress(*s.App, row)
		if halted != nil {
			return errors.New(halted.String(row.Name))
		}
		if line := fmt.Sprintf("%s: %d of %d instances of version %s are ready%s", row.Name, ready, row.Instances, row.Version, more); line != last {
			fmt.Fprintln(cli.Stdout, line)
			last = line
		}
		if ready >= row.Instances && s.App.Update == nil && s.App.Version == row.Version {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w: the update goes on; see \"weir app status %s\"", row.Name, context.Cause(ctx), row.Name)
		}
	}
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
