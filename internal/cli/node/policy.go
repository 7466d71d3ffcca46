package node

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/cli/cell"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/daemon/autoscalerd"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/jsonlines"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/internal/platform/spelling"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/nodehealth/replay"
	"github.com/weirkeeper/weirkeeper/nodehealth/senlin"
)

// maxPolicyFile bounds a policy file, in bytes.
const maxPolicyFile = 1 << 20

func (cli *commands) policyCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "policy", Short: "Check and convert node-health policies", Example: "  weir node policy check pool.yaml", Args: command.Group, RunE: command.Help}
	cmd.AddCommand(cli.policyCheckCommand())
	return cmd
}

func (cli *commands) policyCheckCommand() *cobra.Command {
	var from string
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a node-health policy, and print it with its defaults",
		Long: `Check a node-health policy, and print it with its defaults. FILE is a pool file, or
one that holds the policy alone; "-" is standard input. Without FILE it is the file
of the pool: that of --config-dir or, without it, the one that "weir up" wrote.

With --from senlin, FILE is a health policy of OpenStack Senlin, version 1.0, 1.1 or
1.2. The command prints the policy in the format of Weirkeeper. It reports lost and
changed settings on standard error. The exit code is 0 then, too.`,
		Example: `  weir node policy check
  weir node policy check pool.yaml -o json
  weir node policy check - < health.yaml
  weir node policy check --from senlin health_policy.yaml > health.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return command.OneArg("file")(cmd, args)
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := cli.poolFile()
			if len(args) == 1 {
				file, err = args[0], nil
			}
			if err != nil {
				return err
			}
			return cli.checkPolicy(file, from)
		},
	}
	cmd.Flags().StringVar(&from, "from", "weir", "format of the policy: weir or senlin")
	cli.OutputFlag(cmd)
	return cmd
}

// poolFile returns the file of the pool: below --config-dir or, without it, the one
// that "weir up" wrote, if there is one.
func (cli *commands) poolFile() (string, error) {
	dir := cli.ConfigDir()
	if cli.Configs == "" {
		data, err := cli.DataDir()
		if err != nil {
			return "", err
		}
		if _, err := os.Stat(daemon.UpConfigs(data)); err == nil {
			dir = daemon.UpConfigs(data)
		}
	}
	return filepath.Join(dir, filepath.FromSlash(config.PoolFile(dir, cli.Cluster, cli.Pool))), nil
}

func (cli *commands) checkPolicy(file, from string) error {
	var read func(file string, text []byte) (config.Health, error)
	switch from {
	case "weir":
		read = cli.ourPolicy
	case "senlin":
		read = cli.senlinPolicy
	default:
		return usage.New(fmt.Errorf("--from %q: want weir or senlin", from))
	}
	name, text, err := cli.ReadInput(file, maxPolicyFile)
	if err != nil {
		return usage.New(err)
	}
	policy, err := read(name, text)
	if err != nil {
		return usage.New(err)
	}
	policy.Policy = policy.WithDefaults()
	return cli.printPolicy(policy)
}

// ourPolicy reads a Weirkeeper policy and prints its warnings.
func (cli *commands) ourPolicy(file string, text []byte) (config.Health, error) {
	if hasKey(text, "resource_groups") && !hasKey(text, "health") {
		return config.Health{}, fmt.Errorf("%s: is a pool file without the key health: node health is off for this pool; docs/node-health.md shows a first policy", file)
	}
	pool, warnings, err := config.HealthPolicy(file, text)
	if err == nil {
		err = autoscalerd.CheckHealth(pool)
	}
	if err != nil {
		return config.Health{}, err
	}
	for _, w := range warnings {
		fmt.Fprintf(cli.Stderr, "weir: warning: %v\n", w)
	}
	return *pool.Health, nil
}

// hasKey reports whether a YAML file has a key at its top.
func hasKey(text []byte, key string) bool {
	return bytes.HasPrefix(text, []byte(key+":")) || bytes.Contains(text, []byte("\n"+key+":"))
}

// senlinPolicy converts a policy of Senlin and prints its losses.
func (cli *commands) senlinPolicy(file string, text []byte) (config.Health, error) {
	policy, losses, err := senlin.Convert(text)
	if problems, ok := errors.AsType[config.Problems](err); ok {
		for _, p := range problems {
			p.File = file
		}
		return config.Health{}, problems
	}
	if err != nil {
		return config.Health{}, fmt.Errorf("%s: %w", file, err)
	}
	fmt.Fprintf(cli.Stderr, "weir: %s: lost or different here:\n", file)
	for _, l := range losses {
		fmt.Fprintf(cli.Stderr, "  %s: %s\n", l.Path, l.What)
	}
	return config.Health{Policy: policy}, nil
}

func (cli *commands) printPolicy(h config.Health) error {
	if cli.Output == "json" {
		return cli.PrintJSON(map[string]config.Health{"health": h})
	}
	text, err := h.YAML()
	if err != nil {
		return err
	}
	_, err = cli.Stdout.Write(text)
	return err
}

func (cli *commands) replayCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Replay recorded observations through a node-health policy",
		Long: `Replay recorded observations through a node-health policy: JSON lines from FILE, or
from standard input for "-", evaluated under virtual time. No repair is carried out: an
"outcome" line gives the result of one. A line is one of

  {"policy": {the "health" block of a pool file}}
  {"nodes": [{"id": "i-1", "zone": "a", "since": 0}]}      the whole list
  {"observe": {"node": "i-1", "mode": "NODE_STATUS_POLLING", "verdict": "fail", "reason": "impaired"}}
  {"outcome": {"node": "i-1", "action": "RECREATE", "ok": true}}
  {"pause": {"node": "i-1", "owner": "drain", "ttl": 60}}   {"resume": {...}}
  {"path": {"down": true}}   {"repair_owner": {"other": true}}
  {"recover": {"node": "i-1"}}   {"release": {"node": "i-1"}}   {"hint": {"node": "i-1"}}
  {"advance": SECONDS}

The output is {"t", "event", "node", "action", "gate", "why"}, a line for each finding.
"t" is in seconds.`,
		Example: `  weir node replay incident.jsonl
  weir node replay - < incident.jsonl
  weir node replay --config pool.yaml incident.jsonl`,
		Args: command.OneArg("file, or - for standard input"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var o replay.Options
			if file != "" {
				p, err := cli.policyOf(file)
				if err != nil {
					return usage.New(err)
				}
				o.Policy = &p.Policy
			}
			return cli.replayHealth(cmd.Context(), args[0], o)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "pool file, or policy, that holds until a line gives one")
	return cmd
}

// lineHelp names the documentation of the lines of a replay.
const lineHelp = `The first line is {"policy": ...}, unless --config gives one; "weir node replay --help" shows the valid lines`

// policyOf reads the policy of a file of ours.
func (cli *commands) policyOf(file string) (config.Health, error) {
	name, text, err := cli.ReadInput(file, maxPolicyFile)
	if err != nil {
		return config.Health{}, err
	}
	return cli.ourPolicy(name, text)
}

func (cli *commands) replayHealth(ctx context.Context, path string, o replay.Options) error {
	in, err := cli.Input(path)
	if err != nil {
		return err
	}
	defer in.Close() // only read
	out := bufio.NewWriter(cli.Stdout)
	err = errors.Join(replay.Run(ctx, in, out, o), out.Flush())
	if line, ok := errors.AsType[*jsonlines.Error](err); ok {
		return usage.New(fmt.Errorf("%s:%d: %s\n%s", command.InputName(path), line.Line, line.Problem, lineHelp))
	}
	return err
}

// savedEvidence is evidence under its name.
type savedEvidence struct {
	Name string `json:"name"`
	api.Evidence
}

func (cli *commands) evidenceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "evidence [POOL] NODE",
		Short: "Print the saved evidence of a machine from before it was replaced or rebuilt",
		Long: `Print the saved evidence of a machine from before it was replaced or rebuilt: what each mode
reported, the conditions that its agent reported last, and the end of its console
output. The machine may be gone. The last 4 are kept, for 14 days.

` + fmt.Sprintf(command.PoolRule, "machine"),
		Example: `  weir node evidence web i-0123
  weir node evidence i-0123 -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.OneArg("machine")(cmd, args)
			}
			return cli.PoolThen("machine")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return cli.WithBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error {
				all, err := cli.loadEvidence(ctx, b, command.LastOf(args)[0])
				if err != nil {
					return err
				}
				if cli.Output == "json" {
					return cli.PrintJSON(all)
				}
				for _, e := range all {
					cli.printEvidence(e)
				}
				return nil
			})
		},
	}
	cli.OutputFlag(cmd)
	return cmd
}

// loadEvidence returns the evidence of a machine, oldest first.
func (cli *commands) loadEvidence(ctx context.Context, b *bus.Bus, node string) ([]savedEvidence, error) {
	store, err := state.NewEvidence(b.JetStream(), cli.Cluster, cli.Pool)
	if err != nil {
		return nil, err
	}
	var all []savedEvidence
	err = store.Load(ctx, node, func(name string, data []byte) error {
		e := savedEvidence{Name: name}
		if err := json.Unmarshal(data, &e.Evidence); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if e.Node == node {
			all = append(all, e)
		}
		return nil
	})
	if err == nil && len(all) == 0 {
		others, errNodes := store.Nodes(ctx)
		err = fmt.Errorf("pool %s has no evidence of machine %s%s: it was neither replaced nor rebuilt in the last 14 days; %s",
			cli.Pool, node, spelling.Suggest(node, others), machinesHint)
		if errNodes == nil && len(others) > 0 {
			err = usage.New(err)
		}
	}
	return all, err
}

// printEvidence prints evidence as lines.
func (cli *commands) printEvidence(e savedEvidence) {
	fmt.Fprintf(cli.Stdout, "%s: %s ago, before %s %s%s\n", e.Name, explain.Ago(time.Now(), e.At), e.Action, e.Attempt, cell.After(": ", prose.Printable(e.Reason)))
	for _, mode := range e.Modes {
		fmt.Fprintf(cli.Stdout, "  %s\n", prose.Printable(mode))
	}
	for _, c := range e.Conditions {
		verdict := "ok"
		if c.Failed {
			verdict = "fail"
		}
		fmt.Fprintf(cli.Stdout, "  condition %s: %s%s\n", prose.Printable(c.Type), verdict, cell.After(": ", prose.Printable(c.Why)))
	}
	if e.ConsoleError != "" {
		fmt.Fprintf(cli.Stdout, "  no console output: %s\n", prose.Printable(e.ConsoleError))
	}
	for line := range strings.Lines(e.Console) {
		fmt.Fprintf(cli.Stdout, "  | %s\n", prose.Printable(strings.TrimRight(line, "\r\n")))
	}
}
