package releases

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/bootstrap/release/keyfile"
	"github.com/weirkeeper/weirkeeper/internal/cli/cell"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/progress"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon/signalbucket"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
)

func (cli *commands) listCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list [NAMESPACE[/NAME]]",
		Aliases: []string{"ls"},
		Short:   "List the signal releases in the bucket",
		Example: `  weir release list
  weir release list shop/rps --output json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return command.OneArg("namespace or namespace/name")(cmd, args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var namespace, name string
			if len(args) == 1 {
				namespace, name, _ = strings.Cut(args[0], "/")
				if err := (release.Ref{Namespace: namespace, Name: cmp.Or(name, "x"), Version: "x"}).Validate(); err != nil {
					return usage.New(fmt.Errorf("%q: want NAMESPACE or NAMESPACE/NAME", args[0]))
				}
			}
			bucket, _, err := cli.Bucket(cmd.Context())
			if err != nil {
				return err
			}
			found, err := release.List(cmd.Context(), bucket, namespace, name)
			if err != nil {
				return err
			}
			if cli.Output == "json" {
				return cli.PrintJSON(found)
			}
			var rows [][]string
			for _, p := range found {
				rows = append(rows, []string{p.Namespace, p.Name, p.Version, p.Platform.String(), yesNo(p.Signed), yesNo(p.Yanked)})
			}
			cli.PrintTable([]string{"namespace", "name", "version", "platform", "signed", "yanked"}, rows)
			return nil
		},
	}
	cli.NamesFlag(cmd, func(v any) []string { // a name for all its platforms
		published, _ := v.([]release.Published)
		return slices.Compact(command.EachName(func(p release.Published) string { return p.Ref.String() })(published))
	})
	return cmd
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func (cli *commands) showCommand() *cobra.Command {
	platform, keys := release.Host().String(), []string(nil)
	cmd := &cobra.Command{
		Use:     "show NAMESPACE/NAME@VERSION",
		Aliases: []string{"get", "describe"},
		Short:   "Show the files, the signature and the yank of a release",
		Example: `  weir release show shop/rps@v1.4.0`,
		Args:    command.OneArg("NAMESPACE/NAME@VERSION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return cli.withRelease(cmd.Context(), args[0], platform, keys, func(r chosen) error {
				shown, err := release.Show(cmd.Context(), r.bucket, r.ref, r.platform, r.trust)
				if err != nil {
					return err
				}
				if cli.Output == "json" {
					return cli.PrintJSON(shown)
				}
				cli.printShown(shown)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&platform, "platform", platform, "OS-ARCH")
	cmd.Flags().StringArrayVar(&keys, "key", nil, "file of a further public key to accept, beside those of weir.yaml; the release must be signed then; repeatable")
	cli.OutputFlag(cmd)
	return cmd
}

func (cli *commands) printShown(s release.Shown) {
	m := s.Manifest
	line := func(key, format string, args ...any) {
		fmt.Fprintf(cli.Stdout, "%-10s %s\n", key, fmt.Sprintf(format, args...))
	}
	line("release", "%s for %s", m.Ref, m.Platform)
	line("created", "%s", explain.When(time.Now(), m.Created))
	if m.SDK != "" {
		line("sdk", "%s", m.SDK)
	}
	if m.Protocol > 0 {
		line("kind", "plugin, protocol %d", m.Protocol)
	} else {
		line("kind", "exec")
	}
	signature := string(s.Signature.State)
	if s.Signature.KeyID != "" {
		signature += ", key " + s.Signature.KeyID
	}
	line("signature", "%s", signature)
	if s.Yanked != nil {
		line("yanked", "%s: %s", explain.When(time.Now(), s.Yanked.At), s.Yanked.Why)
	}
	line("archive", "%s, sha256 %s", cell.Bytes(m.Object.Size), m.Object.SHA256)
	line("entry", "%s", m.Entry)
	fmt.Fprintln(cli.Stdout)
	var rows [][]string
	for _, f := range m.Files {
		rows = append(rows, []string{f.Path, f.Mode.String(), cell.Bytes(f.Size), f.SHA256.String()})
	}
	cli.PrintTable([]string{"file", "mode", "size", "sha256"}, rows)
}

func (cli *commands) verifyCommand() *cobra.Command {
	platform, keys := release.Host().String(), []string(nil)
	cmd := &cobra.Command{
		Use:   "verify NAMESPACE/NAME@VERSION",
		Short: "Download and verify a release",
		Long: `Download a release and verify it as bootstrap does before it runs: manifest, yank,
signature, archive, each file. Nothing is stored. The exit code names the problem:

` + command.ReleaseCodesHelp(),
		Example: `  weir release verify shop/rps@v1.4.0 --key publish.key.pub
  weir release verify shop/rps@v1.4.0 --output json`,
		Args: command.OneArg("NAMESPACE/NAME@VERSION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return cli.withRelease(cmd.Context(), args[0], platform, keys, func(r chosen) error {
				report, err := release.Verify(cmd.Context(), r.bucket, r.ref, r.platform, r.trust)
				if err != nil {
					return err
				}
				if cli.Output == "json" {
					if err := cli.PrintJSON(report); err != nil {
						return err
					}
				} else {
					var rows [][]string
					for _, c := range report.Checks {
						rows = append(rows, []string{c.Name, map[bool]string{true: "ok", false: "WRONG"}[c.OK], c.Detail})
					}
					cli.PrintTable([]string{"check", "result", "what"}, rows)
				}
				if err := report.Err(); err != nil {
					return fmt.Errorf("%s cannot run: %w", r.ref, err)
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&platform, "platform", platform, "OS-ARCH")
	cmd.Flags().StringArrayVar(&keys, "key", nil, "file of a further public key to accept, beside those of weir.yaml; the release must be signed then; repeatable")
	cli.OutputFlag(cmd)
	return cmd
}

func (cli *commands) fetchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fetch NAMESPACE/NAME@VERSION...",
		Short: "Fetch releases into the cache of this machine, without running them",
		Long: `Fetch releases into the cache of this machine, as bootstrap does before it runs them,
all at the same time. An interrupted download is resumed. The exit code names the
problem:

` + command.ReleaseCodesHelp(),
		Example: `  weir release fetch shop/rps@v1.4.0 shop/queue@v2.0.1`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage.New(fmt.Errorf("%s requires NAMESPACE/NAME@VERSION\nSee %q", cmd.CommandPath(), cmd.CommandPath()+" --help"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return cli.fetchReleases(cmd.Context(), args) },
	}
	return cmd
}

func (cli *commands) fetchReleases(ctx context.Context, names []string) error {
	var refs []release.Ref
	for _, name := range names {
		ref, err := release.ParseRef(name)
		if err != nil {
			return usage.New(err)
		}
		refs = append(refs, ref)
	}
	bars := progress.New(cli.Stderr)
	fetch, err := cli.Releases(ctx, bars.Show)
	if err != nil {
		return err
	}
	got := make([]release.Installed, len(refs))
	errs := make([]error, len(refs))
	var fetching sync.WaitGroup
	for i, ref := range refs {
		fetching.Go(func() { got[i], errs[i] = fetch(ctx, ref) })
	}
	fetching.Wait()
	bars.Close()
	for i, in := range got {
		if errs[i] == nil {
			fmt.Fprintf(cli.Stdout, "%s: %s\n", refs[i], in.Dir)
		}
	}
	return errors.Join(errs...)
}

// chosen is the release that a command works on.
type chosen struct {
	ref      release.Ref
	platform release.Platform
	bucket   release.Bucket
	trust    release.Trust
}

// withRelease opens the bucket for a command about one release.
func (cli *commands) withRelease(ctx context.Context, name, platform string, keys []string, f func(chosen) error) error {
	ref, p, err := parseRelease(name, platform)
	if err != nil {
		return err
	}
	bucket, service, err := cli.Bucket(ctx)
	if err != nil {
		return err
	}
	if service.Releases.Layout == config.LayoutClusterman {
		return usage.New(errors.New("weir.yaml: releases.layout is clusterman, which has no manifests to show or verify"))
	}
	trust, err := signalbucket.TrustOf(service)
	if err != nil {
		return err
	}
	for _, file := range keys {
		key, err := keyfile.LoadPublic(file)
		if err != nil {
			return usage.New(err)
		}
		trust.Keys, trust.Required = append(trust.Keys, key), true
	}
	return f(chosen{ref, p, bucket, trust})
}
