package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/pools/health/judge"
	"github.com/weirkeeper/weirkeeper/pools/health/replay"
	"github.com/weirkeeper/weirkeeper/pools/health/senlin"
)

// maxPolicyFile bounds a policy file, in bytes.
const maxPolicyFile = 1 << 20

func (cli *cli) healthPolicyCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "policy", Short: "Read node-health policies", Args: group, RunE: help}
	cmd.AddCommand(cli.policyCheckCommand())
	return cmd
}

func (cli *cli) policyCheckCommand() *cobra.Command {
	var from string
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a node-health policy, and print it with its defaults",
		Long: `Check a node-health policy, and print it with its defaults. FILE is a pool file, or
one that holds the policy alone; "-" is standard input. Without FILE it is the file
of the pool.

With --from senlin, FILE is a health policy of OpenStack Senlin, version 1.0, 1.1 or
1.2: what is printed is ours, and what is lost or different is told on standard
error.`,
		Example: `  weir health policy check
  weir health policy check pool.yaml -o json
  weir health policy check --from senlin health_policy.yaml > health.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return oneArg("file")(cmd, args)
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			file := filepath.Join(cli.configs(), filepath.FromSlash(config.PoolFile(cli.configs(), cli.cluster, cli.pool)))
			if len(args) == 1 {
				file = args[0]
			}
			return cli.checkPolicy(file, from)
		},
	}
	cmd.Flags().StringVar(&from, "from", "weir", "whose policy it is: weir or senlin")
	cli.outputFlag(cmd)
	return cmd
}

func (cli *cli) checkPolicy(file, from string) error {
	text, err := cli.readBounded(file, maxPolicyFile)
	if err != nil {
		return &usageError{err}
	}
	var policy judge.Policy
	switch from {
	case "weir":
		var warnings config.Problems
		if policy, warnings, err = config.HealthPolicy(file, text); err != nil {
			return &usageError{err}
		}
		for _, w := range warnings {
			fmt.Fprintf(cli.stderr, "weir: warning: %v\n", w)
		}
	case "senlin":
		var losses []senlin.Loss
		if policy, losses, err = senlin.Convert(text); err != nil {
			return &usageError{fmt.Errorf("%s: %w", file, err)}
		}
		for _, l := range losses {
			fmt.Fprintf(cli.stderr, "weir: %s: %s: %s\n", file, l.Path, l.What)
		}
	default:
		return &usageError{fmt.Errorf("--from %q: want weir or senlin", from)}
	}
	return cli.printPolicy(policy.WithDefaults())
}

// printPolicy prints the block of a pool file.
func (cli *cli) printPolicy(p judge.Policy) error {
	if cli.output == "json" {
		return cli.printJSON(map[string]judge.Policy{"health": p})
	}
	text, err := senlin.YAML(p)
	if err != nil {
		return err
	}
	_, err = cli.stdout.Write(text)
	return err
}

// readBounded reads a file, or standard input for "-", that has so many bytes at most.
func (cli *cli) readBounded(file string, most int64) ([]byte, error) {
	in := cli.stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s is longer than %d bytes", file, most)
	}
	return text, err
}

func (cli *cli) healthReplayCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Print what a node-health policy would have done, of recorded observations",
		Long: `Print what a node-health policy would have done, of recorded observations: JSON lines
from FILE, or from standard input for "-", run through the judge under virtual time.
A line is one of

  {"policy": {the "health" block of a pool file}}
  {"nodes": [{"id": "i-1", "zone": "a", "since": 0}]}      the whole list
  {"observe": {"node": "i-1", "mode": "NODE_STATUS_POLLING", "verdict": "fail", "reason": "impaired"}}
  {"outcome": {"node": "i-1", "action": "RECREATE", "ok": true}}
  {"pause": {"node": "i-1", "owner": "drain", "ttl": 60}}   {"resume": {...}}
  {"path": {"down": true}}   {"healer": {"other": true}}
  {"recover": {"node": "i-1"}}   {"release": {"node": "i-1"}}
  {"advance": SECONDS}

and what comes out is {"t", "event", "node", "action", "gate", "why"}, a line for each
finding.`,
		Example: `  weir health replay incident.jsonl
  weir health replay --config pool.yaml incident.jsonl`,
		Args: oneArg("file, or - for standard input"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var o replay.Options
			if file != "" {
				text, err := cli.readBounded(file, maxPolicyFile)
				if err != nil {
					return &usageError{err}
				}
				p, _, err := config.HealthPolicy(file, text)
				if err != nil {
					return &usageError{err}
				}
				o.Policy = &p
			}
			return cli.replayHealth(cmd.Context(), args[0], o)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "pool file, or policy, that holds until a line gives one")
	return cmd
}

func (cli *cli) replayHealth(ctx context.Context, path string, o replay.Options) error {
	in := cli.stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return &usageError{err}
		}
		defer f.Close()
		in = f
	}
	out := bufio.NewWriter(cli.stdout)
	err := errors.Join(replay.Run(ctx, in, out, o), out.Flush())
	if line, ok := errors.AsType[*replay.LineError](err); ok {
		return &usageError{fmt.Errorf("%s: %w", path, line)}
	}
	return err
}
