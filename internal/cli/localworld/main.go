package localworld

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/localworld/awstrial"
)

// Main runs weir-local and returns the exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	command.NameProcess(os.Args[0])
	root := &command.Root{Stdin: stdin, Stdout: stdout, Stderr: stderr}
	top := root.Command()
	if len(args) == 0 || args[0] == "aws" || filepath.Base(os.Args[0]) == "weir-local" {
		top.Use = "weir-local" // "weir" replaces itself with this program under its own name
	}
	metrics := &cobra.Command{Use: "metrics", Short: "Run the embedded metrics store", Args: command.Group, RunE: command.Help}
	metrics.AddCommand(command.MetricsServe(func(ctx context.Context, o command.MetricsOptions) error { return ServeMetrics(ctx, root, o) }))
	top.AddCommand(metrics, awstrial.Command(root), command.Up(func(ctx context.Context, o command.UpOptions) error {
		program, file, err := command.OpenWeir()
		if err != nil {
			return fmt.Errorf("run \"weir up\": %w", err)
		}
		defer file.Close()
		root.Program = program
		return Up(ctx, root, o)
	}))
	return command.ExitCode(root.Run(top, args))
}
