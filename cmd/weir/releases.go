package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	bar "github.com/jedib0t/go-pretty/v6/progress"
	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/command"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/flock"
	"github.com/weirkeeper/weirkeeper/internal/signalbucket"
	"github.com/weirkeeper/weirkeeper/internal/state"
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
		if _, err := os.Stat(command.UpConfigs(data)); err == nil {
			if _, held, err := flock.Holder(filepath.Join(data, "up.lock")); err == nil && !held {
				return nil, config.Service{}, nothingRuns(data)
			}
			if keys, err = signalbucket.LocalKeys(data); err != nil {
				return nil, config.Service{}, err
			}
			dir = command.UpConfigs(data)
		} else if !errors.Is(err, os.ErrNotExist) {
			return nil, config.Service{}, err
		}
	}
	service, err := config.LoadService(dir)
	if err != nil {
		return nil, service, command.Usage(err)
	}
	bucket, err := signalbucket.Open(ctx, service, keys)
	return bucket, service, err
}

// bars shows the progress of downloads on a terminal, one line for each. It prints
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
	f := command.TerminalOf(w)
	if f == nil {
		return b
	}
	b.writer = bar.NewWriter()
	b.writer.SetOutputWriter(f)
	b.writer.SetUpdateFrequency(100 * time.Millisecond)
	b.drawing.Go(func() {
		defer close(b.done)
		b.writer.Render()
	})
	return b
}

// show shows the progress of a download. It may be called concurrently.
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

func (cli *signalCommands) signalForgetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "forget NAMESPACE/NAME@VERSION",
		Short: "Accept a version whose content or yank changed in the bucket",
		Long: `Accept a version whose content or yank changed in the bucket. The command deletes the
digest and the yank that the hosts of the cluster stored for the version. The next
fetch accepts the content of the bucket. First find out why the version changed: if
its publisher did not change it, another person replaced it.`,
		Example: `  weir signal forget shop/rps@v1.4.0`,
		Args:    command.OneArg("NAMESPACE/NAME@VERSION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := release.ParseRef(args[0])
			if err != nil {
				return command.Usage(err)
			}
			return cli.withBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error { return cli.forgetRelease(ctx, b, ref) })
		},
	}
}

func (cli *signalCommands) forgetRelease(ctx context.Context, b *bus.Bus, ref release.Ref) error {
	bucket, _, err := cli.bucket(ctx)
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
	if err := cache.Forget(ctx, bucket, ref); err != nil {
		return err
	}
	fmt.Fprintf(cli.Stdout, "%s: the next fetch accepts the content of the bucket\n", ref)
	return nil
}
