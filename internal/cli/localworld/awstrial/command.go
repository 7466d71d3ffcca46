package awstrial

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
)

// Command returns the commands of "weir-local aws".
func Command(root *command.Root) *cobra.Command {
	cmd := &cobra.Command{
		Use: "aws", Short: "Try pools on AWS without AWS",
		Long: `Try pools on AWS without AWS. "serve" runs a server that follows the API of AWS: EC2,
Auto Scaling, Spot Fleet, target groups, SQS, metrics of CloudWatch and an S3 bucket, as
far as Weirkeeper uses them. The other commands list its instances and cause faults.`,
		Args: command.Group, RunE: command.Help,
	}
	cmd.AddCommand(serveCommand(root), listCommand(root), faultCommand(root))
	return cmd
}

func serveCommand(root *command.Root) *cobra.Command {
	var addr string
	cmd := &cobra.Command{
		Use:   "serve FILE",
		Short: "Serve the API of AWS with the groups and fleets of a file",
		Long: `Serve the API of AWS with the groups and fleets of a file, until Ctrl-C. The state is in
memory: the next start begins with the file, and with ids that no start before had. The content of the bucket, and the file
aws-keys.json for aws.access_key_file of weir.yaml, are in the data folder.

With "agents" in the file, each running instance has an agent, with these resources.`,
		Example: `  weir-local aws serve aws.yaml
  weir-local aws serve aws.yaml --addr 127.0.0.1:5000 --data /tmp/trial`,
		Args: command.OneArg("file"),
		RunE: func(cmd *cobra.Command, args []string) error { return serve(cmd.Context(), root, args[0], addr) },
	}
	cmd.Flags().StringVar(&addr, "addr", "127.0.0.1:4599", "address of all services; port 0 means a free port")
	return cmd
}

func listCommand(root *command.Root) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List the instances of the trial", Example: "  weir-local aws list", Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			data, err := root.DataDir()
			if err != nil {
				return err
			}
			var all []owned
			if err := callControl(cmd.Context(), data, http.MethodGet, nil, &all); err != nil {
				return err
			}
			if root.Output == "json" {
				return root.PrintJSON(all)
			}
			var rows [][]string
			for _, o := range all {
				for _, i := range o.Instances {
					rows = append(rows, []string{o.Name, fmt.Sprint(o.Target), i.ID, i.Market.Type, i.Market.Zone, i.State})
				}
				if len(o.Instances) == 0 {
					rows = append(rows, []string{o.Name, fmt.Sprint(o.Target), "-", "-", "-", "-"})
				}
			}
			root.PrintTable([]string{"group", "target", "instance", "type", "zone", "state"}, rows)
			return nil
		},
	}
	root.OutputFlag(cmd)
	return cmd
}

func faultCommand(root *command.Root) *cobra.Command {
	parent := &cobra.Command{
		Use: "fault", Short: "Cause a fault of AWS", Args: command.Group, RunE: command.Help,
		Example: "  weir-local aws fault interrupt i-00000000000000001",
	}
	for _, f := range faults() {
		parent.AddCommand(&cobra.Command{
			Use: f.use, Short: f.short, DisableFlagParsing: strings.Contains(f.use, "NUMBER"), // -1 is a number
			Args: func(cmd *cobra.Command, args []string) error {
				if !f.accepts(len(args)) {
					return usage.New(fmt.Errorf("%s: want %s\nSee %q", cmd.CommandPath(), f.use, cmd.CommandPath()+" --help"))
				}
				return nil
			},
			RunE: func(cmd *cobra.Command, args []string) error {
				data, err := root.DataDir()
				if err != nil {
					return err
				}
				if err := callControl(cmd.Context(), data, http.MethodPost, order{f.name(), args}, nil); err != nil {
					return fmt.Errorf("%s: %w", cmd.CommandPath(), err)
				}
				return nil
			},
		})
	}
	return parent
}
