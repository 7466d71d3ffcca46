package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	bar "github.com/jedib0t/go-pretty/v6/progress"
	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/daemon/signalbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/flock"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/terminal"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// bucket opens the bucket of weir.yaml in --config-dir. Without --config-dir it uses the
// file that "weir up" wrote to the data folder, if there is one.
func (cli *shared) bucket(ctx context.Context) (release.Bucket, config.Service, error) {
	dir, keys := cli.ConfigDir(), signalbucket.Keys{}
	if cli.Configs == "" {
		data, err := cli.DataDir()
		if err != nil {
			return nil, config.Service{}, err
		}
		if _, err := os.Stat(daemon.UpConfigs(data)); err == nil {
			if _, held, err := flock.Holder(filepath.Join(data, "up.lock")); err == nil && !held {
				return nil, config.Service{}, nothingRuns(data)
			}
			if keys, err = signalbucket.LocalKeys(data); err != nil {
				return nil, config.Service{}, err
			}
			dir = daemon.UpConfigs(data)
		} else if !errors.Is(err, os.ErrNotExist) {
			return nil, config.Service{}, err
		}
	}
	service, err := config.LoadService(dir)
	if err != nil {
		return nil, service, usage.New(err)
	}
	bucket, err := signalbucket.Open(ctx, service, keys)
	return bucket, service, err
}

// bars shows the progress of downloads and uploads on a terminal, one line for each, with bytes and rate. It prints
// nothing if the output is not a terminal.
type bars struct {
	writer bar.Writer // nil: not a terminal
	done   chan struct{}

	drawing  sync.WaitGroup
	mu       sync.Mutex
	trackers map[release.Ref]*bar.Tracker
}

func newBars(w io.Writer) *bars {
	b := &bars{trackers: map[release.Ref]*bar.Tracker{}, done: make(chan struct{})}
	f := terminal.Of(w)
	if f == nil {
		return b
	}
	b.writer = bar.NewWriter()
	b.writer.SetOutputWriter(f)
	b.writer.SetUpdateFrequency(100 * time.Millisecond)
	b.writer.Style().Visibility.Speed = true
	b.drawing.Go(func() {
		defer close(b.done)
		b.writer.Render()
	})
	return b
}

// show shows the progress of a transfer. It may be called concurrently.
func (b *bars) show(ref release.Ref, done, total int64) {
	if b.writer == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t, ok := b.trackers[ref]
	if !ok {
		t = &bar.Tracker{Message: ref.String(), Total: total, Units: bar.UnitsBytes}
		b.trackers[ref] = t
		b.writer.AppendTracker(t)
	}
	t.SetValue(done)
}

// close stops the updates and leaves the lines on the terminal.
func (b *bars) close() {
	if b.writer == nil {
		return
	}
	again := time.NewTicker(10 * time.Millisecond) // the writer ignores a stop before its first update
	defer again.Stop()
	for {
		b.writer.Stop()
		select {
		case <-b.done:
			return
		case <-again.C:
		}
	}
}

func bytesText(n int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= unit.size {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(unit.size), unit.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

// timeText formats a time in the local zone.
func timeText(t time.Time) string { return t.Local().Format(time.DateTime) }

// timeCell returns a time for the first column of a table, without a blank. "--at" reads it.
func timeCell(t time.Time) string { return t.Local().Format(time.RFC3339) }

func (cli *signalCommands) releaseForgetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "forget NAMESPACE/NAME@VERSION",
		Short: "Accept a version whose content or yank changed in the bucket",
		Long: `Accept a version whose content or yank changed in the bucket. The command deletes the
digest and the yank that the hosts of the cluster stored for the version. The next
fetch accepts the content of the bucket. In Clusterman's layout that applies to all
signals of the version. First find out why the version changed: if
its publisher did not change it, another person replaced it.`,
		Example: `  weir release forget shop/rps@v1.4.0`,
		Args:    command.OneArg("NAMESPACE/NAME@VERSION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := release.ParseRef(args[0])
			if err != nil {
				return usage.New(err)
			}
			return cli.withBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error { return cli.forgetRelease(ctx, b, ref) })
		},
	}
}

func (cli *signalCommands) forgetRelease(ctx context.Context, b *bus.Bus, ref release.Ref) error {
	bucket, service, err := cli.bucket(ctx)
	if err != nil {
		return err
	}
	seen, err := state.OpenSeen(ctx, b.JetStream(), cli.Cluster, b.Replicas())
	if err != nil {
		return err
	}
	dir, err := cli.DataDir()
	if err != nil {
		return err
	}
	cache, err := release.OpenCache(ctx, release.Config{Dir: filepath.Join(dir, "releases"), Shared: seen})
	if err != nil {
		return err
	}
	if err := signalbucket.Forget(ctx, cache, bucket, service, ref); err != nil {
		return err
	}
	fmt.Fprintf(cli.Stdout, "%s: the next fetch accepts the content of the bucket\n", ref)
	return nil
}

// releaseUse is a process of a pool that runs a release.
type releaseUse struct {
	Cluster string    `json:"cluster"`
	Pool    string    `json:"pool"`
	App     string    `json:"app"`
	Release string    `json:"release"`
	State   string    `json:"state"`            // of the process; "answered" if only the last tick is known
	AsOf    time.Time `json:"as_of,omitzero"`   // of that tick
	Yanked  string    `json:"yanked,omitempty"` // why the release was withdrawn
}

func (cli *fleetCommands) signalWhereCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "where NAMESPACE/NAME[@VERSION]",
		Short: "List the pools that run a release, also beside another version",
		Long: `List the pools of the cluster that run a release of a signal, also beside another version
as candidate or shadow. Yanked releases are marked. Of a pool whose bootstrap does not
answer, the releases of its last tick are listed, with the time of that tick.`,
		Example: `  weir signal where shop/rps@v1.4.0
  weir signal where shop/rps --output json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := command.OneArg("release")(cmd, args); err != nil {
				return err
			}
			_, err := releasePattern(args[0])
			return err
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			wanted, err := releasePattern(args[0])
			if err != nil {
				return err
			}
			return cli.withBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error { return cli.where(ctx, b, wanted) })
		},
	}
	cli.namesFlag(cmd, eachName(func(u releaseUse) string { return u.Pool }))
	return cmd
}

// releasePattern reads NAMESPACE/NAME@VERSION, or NAMESPACE/NAME for all versions: then the version is empty.
func releasePattern(text string) (release.Ref, error) {
	if !strings.Contains(text, "@") {
		namespace, name, ok := strings.Cut(text, "/")
		ref := release.Ref{Namespace: namespace, Name: name, Version: "x"}
		if !ok || ref.Validate() != nil {
			return release.Ref{}, usage.New(fmt.Errorf("release %q: want NAMESPACE/NAME or NAMESPACE/NAME@VERSION", text))
		}
		ref.Version = ""
		return ref, nil
	}
	ref, err := release.ParseRef(text)
	if err != nil {
		return ref, usage.New(err)
	}
	return ref, nil
}

func (cli *fleetCommands) where(ctx context.Context, b *bus.Bus, wanted release.Ref) error {
	pools, err := cli.fleet(b).Pools(ctx)
	if err != nil {
		return err
	}
	found := slices.Concat(view.ForPools(pools, func(pool string) []releaseUse { return cli.usesIn(ctx, b, pool) })...)
	uses := slices.DeleteFunc(append([]releaseUse{}, found...), func(u releaseUse) bool {
		signal, version, _ := strings.Cut(u.Release, "@")
		return signal != wanted.Namespace+"/"+wanted.Name || wanted.Version != "" && version != wanted.Version
	})
	cli.markYanked(ctx, uses, wanted)
	if cli.output == "json" {
		return cli.printJSON(uses)
	}
	var rows [][]string
	for _, u := range uses {
		state := u.State
		if !u.AsOf.IsZero() {
			state += " at " + timeText(u.AsOf)
		}
		yanked := "-"
		if u.Yanked != "" {
			yanked = "YANKED: " + u.Yanked
		}
		rows = append(rows, []string{u.Pool, u.App, u.Release, state, yanked})
	}
	cli.printTable([]string{"pool", "app", "release", "state", "yanked"}, rows)
	return nil
}

// usesIn returns the releases that a pool runs; those of its last tick if its bootstrap does not answer.
func (cli *fleetCommands) usesIn(ctx context.Context, b *bus.Bus, pool string) (uses []releaseUse) {
	add := func(app, signal, version, state, yanked string, at time.Time) {
		if version != "" {
			uses = append(uses, releaseUse{cli.Cluster, pool, app, signal + "@" + version, state, at, yanked})
		}
	}
	var s api.BootstrapStatus
	err := view.Request(ctx, b.Conn(), names.BootstrapSubject(cli.Cluster, pool, "status"), "bootstrap of pool "+pool, nil, &s)
	if err == nil {
		for _, p := range s.Signals {
			add(p.App, p.Signal, p.Version, p.State, p.Yanked, time.Time{})
			if c := p.Candidate; c != nil {
				add(p.App, c.Signal, c.Version, "beside it: "+c.State, c.Yanked, time.Time{})
			}
		}
		return uses
	}
	r, errTick := view.StoredTick(ctx, b, cli.Cluster, pool)
	if errTick != nil {
		fmt.Fprintf(cli.Stderr, "weir: the releases of pool %s are unknown: %v; %v\n", pool, err, errTick)
		return nil
	}
	for _, a := range appsOf(r) {
		add(a.Name, a.Opinion.Signal, a.Opinion.Version, "answered", "", r.At)
	}
	if r.Case != nil {
		add(sigproto.DefaultApp, r.Case.Input.Default.Signal, r.Case.Input.Default.Version, "answered", "", r.At)
	}
	return uses
}

// markYanked marks the uses whose release is yanked in the bucket.
func (cli *fleetCommands) markYanked(ctx context.Context, uses []releaseUse, wanted release.Ref) {
	if len(uses) == 0 {
		return
	}
	bucket, _, err := cli.bucket(ctx)
	var published []release.Published
	if err == nil {
		published, err = release.List(ctx, bucket, wanted.Namespace, wanted.Name)
	}
	if err != nil {
		fmt.Fprintf(cli.Stderr, "weir: yanks in the bucket are unknown: %v\n", err)
	}
	for _, p := range published {
		for i := range uses {
			if p.Yanked && uses[i].Release == p.Ref.String() && uses[i].Yanked == "" {
				uses[i].Yanked = fmt.Sprintf("see \"weir release show %s\"", p.Ref)
			}
		}
	}
}
