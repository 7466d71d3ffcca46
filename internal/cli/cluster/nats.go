package cluster

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/cli/natsinit"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsconf"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
)

// natsCommands are the commands of "weir nats".
type natsCommands struct{ *connect.CLI }

func (cli *natsCommands) natsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "nats",
		Short: "Set up the NATS servers of a cluster",
		Example: `  weir nats init --servers n1,n2,n3 --cluster prod --pool web,batch --dir weir-nats
  weir nats streams --cluster prod --config-dir /etc/weir`,
		Args: command.Group,
		RunE: command.Help,
	}
	cmd.AddCommand(cli.initCommand(), cli.streamsCommand())
	return cmd
}

func (cli *natsCommands) initCommand() *cobra.Command {
	var o natsinit.Options
	dryRun := false
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write configuration, certificates and keys of NATS servers",
		Long: `Write configuration, certificates and keys of NATS servers, with least privilege for each
role: every pool, harmonizer, placer, scheduler, agent, operator and viewer has a key of its own.
docs/bus.md lists what each role may do.

A later run on the same folder adds the missing files, for example the keys of a new pool
or of a new server. It keeps all keys. If a key is renamed to NAME.nk.old, the servers
accept that key and a new one. With --revoke the servers refuse the key of a user, and end
its connections, at their next reload.`,
		Example: `  weir nats init --servers n1,n2,n3 --cluster prod --pool web,batch --dir weir-nats
  weir nats init --cluster prod --pool ml --dir weir-nats
  weir nats init --cluster prod --remove-pool ml --dir weir-nats
  weir nats init --revoke prod.operator --dir weir-nats
  weir nats init --servers n1=10.0.0.1 --cluster prod --pool web --dry-run
  weir nats init --servers n1,n2,n3 --cluster prod --pool web --ca ca.crt --certs ./certs`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("revoke") && len(o.Revoke) == 0 {
				return usage.New(errors.New("--revoke is empty: name a user, such as prod.operator"))
			}
			o.Now = time.Now()
			plan, err := natsinit.Prepare(o)
			if err != nil {
				return usage.New(err)
			}
			if !dryRun {
				if err := plan.Write(); err != nil {
					return err
				}
			}
			return cli.printPlan(plan, dryRun)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Folder, "dir", "weir-nats", "folder to write")
	f.StringSliceVar(&o.Servers, "servers", nil, "names of the servers, or NAME=HOST")
	f.StringVar(&o.Cluster, "cluster", "", "cluster to add")
	f.StringSliceVar(&o.Pools, "pool", nil, "pools of the cluster to add")
	f.StringSliceVar(&o.Remove, "remove-pool", nil, "pools of the cluster to take away; their streams and keys stay")
	f.StringSliceVar(&o.Revoke, "revoke", nil, "users whose key was stolen, as prod.operator; the servers refuse it from a reload on")
	f.StringSliceVar(&o.Publish, "publish", nil, "subjects to which the workflows of a pool publish, as POOL/SUBJECT")
	f.StringSliceVar(&o.Agents, "agent", nil, "nodes that get a key, as POOL/NODE; a service verifies the nodes of other pools")
	f.StringSliceVar(&o.Schedulers, "scheduler", nil, "pools whose scheduler is another program with nodes of its own, such as Kubernetes: no placer, no agents")
	f.StringSliceVar(&o.LegacyDEAs, "legacy-dea", nil, "nodes of the classic protocol")
	f.StringVar(&o.CAFile, "ca", "", "certificate of your own authority, with --certs")
	f.StringVar(&o.CertFolder, "certs", "", "folder with NAME.crt and NAME.key of each server, with --ca")
	f.BoolVar(&o.Force, "force", false, "replace all keys and certificates")
	f.BoolVar(&dryRun, "dry-run", false, "print the files and the configuration, and write nothing")
	cli.OutputFlag(cmd)
	return cmd
}

// natsPlan is the JSON of "weir nats init".
type natsPlan struct {
	Dir     string          `json:"dir"`
	DryRun  bool            `json:"dry_run"`
	Files   []natsinit.File `json:"files"`
	Servers []string        `json:"servers"` // addresses for clients
	Next    []string        `json:"next"`
}

func (cli *natsCommands) printPlan(plan *natsinit.Plan, dryRun bool) error {
	next := nextSteps(plan)
	if cli.Output == "json" {
		return cli.PrintJSON(natsPlan{plan.Folder, dryRun, plan.Files, plan.URLs(), next})
	}
	var rows [][]string
	kept := 0
	for _, f := range plan.Files {
		if f.Action == natsinit.Keep {
			kept++
			continue
		}
		note := ""
		if f.Secret {
			note = "secret"
		}
		rows = append(rows, []string{string(f.Action), filepath.Join(plan.Folder, f.Path), note})
	}
	if len(rows) > 0 {
		cli.PrintTable([]string{"action", "file", ""}, rows)
	}
	if kept > 0 {
		fmt.Fprintf(cli.Stdout, "%d files of %s stay as they are\n", kept, plan.Folder)
	}
	if dryRun {
		cli.printConfigurations(plan)
		fmt.Fprintln(cli.Stdout, "dry run: nothing was written")
		return nil
	}
	fmt.Fprintln(cli.Stdout, "\nNext:")
	for i, step := range next {
		fmt.Fprintf(cli.Stdout, "%d. %s\n", i+1, step)
	}
	return nil
}

// printConfigurations prints the servers' configuration. The accounts are the same for all.
func (cli *natsCommands) printConfigurations(plan *natsinit.Plan) {
	accounts := false
	for _, f := range plan.Files {
		shared := filepath.Base(f.Path) == natsconf.AccountsFile
		if filepath.Ext(f.Path) != ".conf" || shared && accounts {
			continue
		}
		accounts = accounts || shared
		fmt.Fprintf(cli.Stdout, "\n--- %s\n%s", f.Path, f.Text())
	}
}

// quoted returns texts for a YAML list within braces, where a URL needs quotes.
func quoted(texts []string) string {
	var all []string
	for _, text := range texts {
		all = append(all, strconv.Quote(text))
	}
	return strings.Join(all, ", ")
}

// nextSteps returns what the operator does with the files.
func nextSteps(plan *natsinit.Plan) []string {
	dir, first := plan.Folder, plan.Site.Clusters[0]
	var steps []string
	if plan.Verified() { // first: a reload of the servers has it verify each user again
		steps = append(steps, fmt.Sprintf("Copy %s, %s and %s to the hosts of \"weir auth\", which verifies agents and the daemons of pools; or name the nodes with --agent POOL/NODE",
			filepath.Join(dir, natsconf.DaemonsFile), filepath.Join(dir, "issuer.nk"), filepath.Join(dir, "roles", first.Name+".auth.nk")))
	}
	steps = append(steps,
		fmt.Sprintf("Copy %s/NAME to %s on each server, and run: nats-server -c %s/nats.conf (if they run: reload each of them twice, nats-server --signal reload)",
			filepath.Join(dir, "servers"), natsinit.InstallFolder, natsinit.InstallFolder),
		fmt.Sprintf("Copy %s/USER.nk to the host of its process, for example %s.pool.%s.nk to the host of pool %s, and %s to every host",
			filepath.Join(dir, "roles"), first.Name, first.Pools[0].Name, first.Pools[0].Name, filepath.Join(dir, "ca.crt")),
		fmt.Sprintf("Set in weir.yaml of each host: nats: {servers: [%s], nkey_file: /etc/weir/USER.nk, tls: {ca_file: /etc/weir/ca.crt}}",
			quoted(plan.URLs())),
	)
	steps = append(steps, fmt.Sprintf("Create the streams, with the key %s.admin.nk: weir nats streams --cluster %s --config-dir /etc/weir", first.Name, first.Name))
	for _, name := range slices.Sorted(maps.Keys(plan.Site.Revoked)) {
		files := filepath.Join(dir, "roles", name+".nk*.revoked")
		steps = append(steps, fmt.Sprintf("The reload ends the connections of %s. For its new key remove %s, run this command again, and restart the servers one at a time", name, files))
	}
	for _, f := range plan.Files {
		name, key := strings.CutSuffix(filepath.Base(f.Path), ".nk")
		if f.Action == natsinit.Revoke && key && len(plan.Site.Revoked[name]) == 0 { // "weir auth" verifies the user
			steps = append(steps, fmt.Sprintf("The reload ends the connections of the revoked key of %s. Copy its new key %s to the host of its process", name, filepath.Join(dir, f.Path)))
		}
	}
	return append(steps, fmt.Sprintf("Keep %s and all .nk files secret", filepath.Join(dir, "ca.key")))
}
