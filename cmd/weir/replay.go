package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/replay"
	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/command"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon/harmonizerd"
	"github.com/weirkeeper/weirkeeper/internal/inputfile"
	"github.com/weirkeeper/weirkeeper/internal/jsonlines"
)

func (cli *harmonizerCommands) replayCommand() *cobra.Command {
	var file string
	var c replay.Config
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Replay recorded events through the harmonizer's rules",
		Long: `Replay recorded events through the harmonizer's rules: JSON lines from FILE, or from
standard input for "-", evaluated under virtual time. The first line is at t = 1. A line is one of

  {"bulk": {APP: {"instances": 2, "state": "STARTED", "version": "v1", "package_state": "STAGED",
                  "updated_at": "2012-11-16 00:00:00 UTC", "memory": 256}}}
  {"bulk_down": true}   {"bus_down": true}
  {"subj": "dea.heartbeat", "msg": {...}, "reply": SUBJECT}
  {"subj": "weir.CLUSTER.heartbeat.NODE", "msg": {...}}
  {"advance": SECONDS}
  {"dump": APP}

The output is {"t", "subj", "msg"}, a line for each message. Without --config the rules
use their default numbers, and delays have no jitter.`,
		Example: `  weir harmonizer replay events.jsonl
  weir harmonizer replay --events --config harmonizer.yaml events.jsonl
  weir harmonizer record - | tee events.jsonl`,
		Args: command.OneArg("file, or - for standard input"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				c.Apps = apps.Config{DelayTimeNoise: new(time.Duration)}
			} else {
				h, warnings, err := config.ReadHarmonizer(file)
				if err != nil {
					return command.Usage(err)
				}
				for _, w := range warnings {
					fmt.Fprintf(cli.Stderr, "weir: warning: %v\n", w)
				}
				c.Apps, c.ExpectedStateUpdate = h.Rules(), h.ExpectedUpdate()
				if !h.HasStarter() { // "bulk" is a cloud controller's
					c.Apps.Starter = apps.StarterController
				}
				c.Classic = h.Dialect == config.DialectCloudController
			}
			return cli.replay(cmd.Context(), args[0], c)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "harmonizer.yaml, or a health_manager.yml, with the rules' numbers")
	cmd.Flags().BoolVar(&c.Events, "events", false, "print what the rules found, too")
	return cmd
}

func (cli *harmonizerCommands) replay(ctx context.Context, path string, c replay.Config) error {
	in := cli.Stdin
	if path != "-" {
		f, err := inputfile.Open(path)
		if err != nil {
			return command.Usage(err)
		}
		defer f.Close()
		in = f
	}
	out := bufio.NewWriter(cli.Stdout)
	err := replay.Run(ctx, in, out, c)
	if line, ok := errors.AsType[*jsonlines.Error](err); ok {
		err = command.Usage(fmt.Errorf("%s: %w", path, line))
	}
	return errors.Join(err, out.Flush())
}

func (cli *harmonizerCommands) recordCommand() *cobra.Command {
	var file string
	var force bool
	cmd := &cobra.Command{
		Use:   "record FILE",
		Short: "Record the messages that a harmonizer receives, until Ctrl-C",
		Long: `Record the messages that a harmonizer receives into a file for "weir harmonizer
replay", until Ctrl-C. The command publishes nothing, so it may run beside the leading
harmonizer. "-" is standard output.`,
		Example: `  weir harmonizer record events.jsonl`,
		Args:    command.OneArg("file, or - for standard output"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return cli.withFile(cmd.Context(), file, func(ctx context.Context, b *bus.Bus, file config.Harmonizer) error {
				return cli.record(ctx, b, file, args[0], force)
			})
		},
	}
	configFlag(cmd, &file)
	cmd.Flags().BoolVar(&force, "force", false, "replace a file that is there")
	return cmd
}

func (cli *harmonizerCommands) record(ctx context.Context, b *bus.Bus, file config.Harmonizer, path string, force bool) error {
	log, err := cli.Logger()
	if err != nil {
		return err
	}
	out, err := cli.create(path, force)
	if err != nil {
		return err
	}
	recorder := replay.NewRecorder(out, time.Now)
	parts := harmonizerd.Parts{Bus: b, File: file, Loop: file.Loop(cli.Cluster, []string{cli.Pool}), Record: recorder, Log: log}
	parts.Loop.Shadow = true
	h, err := parts.Wire(ctx)
	if err != nil {
		return errors.Join(err, out.Close())
	}
	fmt.Fprintf(cli.Stderr, "weir: recording to %s; Ctrl-C ends it\n", path)
	err = h.Run(ctx)
	recorder.Close()
	return errors.Join(err, recorder.Err(), out.Close())
}

// create opens a new file for writing, or standard output for "-".
func (cli *harmonizerCommands) create(path string, force bool) (io.WriteCloser, error) {
	if path == "-" {
		return nopCloser{cli.Stdout}, nil
	}
	how := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		how = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(path, how, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, command.Usage(fmt.Errorf("%s is there already: give another name, or --force", path))
	}
	return f, err
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
