package stored

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/state/backup"
)

func (cli *commands) backupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write all buckets and streams of the cluster to a file",
		Long: `Write all buckets and streams of the cluster to a file: state, orders, applications,
recorded ticks, summaries and evidence. Daemons may run. The file is a tar file with a
digest of each stream. It has the commands of all applications, so only its user can
read it. The command needs the credentials of role admin.`,
		Example: `  weir state backup prod.tar
  weir state backup prod.tar --output json`,
		Args: command.OneArg("file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return cli.AsAdmin(cmd.Context(), func(ctx context.Context, b *bus.Bus) error { return cli.backup(ctx, b, args[0]) })
		},
	}
	cli.OutputFlag(cmd)
	return cmd
}

func (cli *commands) backup(ctx context.Context, b *bus.Bus, path string) error {
	c := backup.Config{JS: b.JetStream(), Cluster: cli.Cluster, Timeout: cli.Timeout}
	streams, err := backup.Streams(ctx, c)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return usage.New(fmt.Errorf("%s exists: name a new file", path))
	}
	if err != nil {
		return usage.New(err)
	}
	m, err := backup.Write(ctx, c, streams, file)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return cli.printBackup(m)
}

func (cli *commands) restoreCommand() *cobra.Command {
	var replace, dryRun bool
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Restore the buckets and streams of the cluster from a backup",
		Long: `Restore the buckets and streams of the cluster from a backup. The command verifies the
whole file before it changes anything. With --replace it deletes each bucket and stream
of the backup that exists, and restores it. Machines and instances run on. Readers that
have seen newer values treat the older ones as unknown until an operator accepts them
with "weir state accept": see docs/backup.md. If the restore is interrupted, run it again
with --replace. The command needs the credentials of role admin.`,
		Example: `  weir state restore prod.tar --dry-run
  weir state restore prod.tar
  weir state restore prod.tar --replace`,
		Args: command.OneArg("file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := os.Open(args[0])
			if err != nil {
				return usage.New(fmt.Errorf("read the backup: %w; give a file of \"weir state backup\"", err))
			}
			defer file.Close() // only read
			if dryRun {
				m, err := backup.Verify(file)
				if err != nil {
					return fmt.Errorf("verify %s: %w", args[0], err)
				}
				return cli.printBackup(m)
			}
			return cli.AsAdmin(cmd.Context(), func(ctx context.Context, b *bus.Bus) error {
				c := backup.Config{JS: b.JetStream(), Cluster: cli.Cluster, Replicas: b.Replicas(), Replace: replace, Timeout: cli.Timeout}
				m, err := backup.Restore(ctx, c, file)
				if errors.Is(err, backup.ErrExists) {
					err = fmt.Errorf("%w; --replace deletes what exists first", err)
				}
				if err != nil {
					return fmt.Errorf("restore %s: %w", args[0], err)
				}
				return cli.printBackup(m)
			})
		},
	}
	cmd.Flags().BoolVar(&replace, "replace", false, "delete the buckets and streams of the backup that exist, and restore them")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "verify and list the file, and connect to no server")
	cli.OutputFlag(cmd)
	return cmd
}

func (cli *commands) printBackup(m backup.Manifest) error {
	if cli.Output == "json" {
		return cli.PrintJSON(m)
	}
	var rows [][]string
	for _, s := range m.Streams {
		rows = append(rows, []string{s.Name, fmt.Sprint(s.Messages), fmt.Sprint(s.LastSequence), fmt.Sprint(s.Bytes)})
	}
	cli.PrintTable([]string{"stream", "messages", "last sequence", "bytes"}, rows)
	return nil
}
