package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"aead.dev/minisign"
	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/bootstrap/release/keyfile"
	"github.com/weirkeeper/weirkeeper/internal/cli/cell"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/progress"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/daemon/signalbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
)

func (cli *releaseCommands) publishCommand() *cobra.Command {
	var source release.Source
	var signKey, kind string
	platform := release.Host().String()
	cmd := &cobra.Command{
		Use:   "publish NAMESPACE/NAME@VERSION PATH",
		Short: "Publish a version of a signal to the bucket; a version never changes",
		Long: `Publish a version of a signal, an executable file or a folder, to the bucket of
weir.yaml. The same files may be published again; other files under the same
version are refused.

With --sign-key the release is signed (minisign). The password of an encrypted
key is that of WEIR_SIGN_PASSWORD. "weir release keygen" makes a pair of keys.

The command detects whether a Go program is a plugin. For other programs, set --kind.`,
		Example: `  weir release publish shop/rps@v1.4.0 ./bin/rps
  weir release publish shop/rps@v1.4.0 ./bin/rps-arm64 --platform linux-arm64
  weir release publish shop/rps@v1.5.0 ./dist --entry bin/rps --sign-key ~/.weir/publish.key`,
		Args: command.TwoArgs("NAMESPACE/NAME@VERSION and PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, p, err := parseRelease(args[0], platform)
			if err != nil {
				return err
			}
			switch kind {
			case "":
			case "plugin":
				source.Protocol = 1
			default:
				return usage.New(fmt.Errorf("--kind %q: want plugin; omit it for any other program", kind))
			}
			if signKey != "" {
				key, err := keyfile.LoadPrivate(signKey, passwordOfEnv)
				if err != nil {
					return usage.New(err)
				}
				source.Key = &key
			}
			if _, err := os.Stat(args[1]); err != nil {
				return usage.New(fmt.Errorf("%w: name a file or a folder", err))
			}
			bucket, _, err := cli.Bucket(cmd.Context())
			if err != nil {
				return err
			}
			source.Path, source.Created = args[1], time.Now()
			bars := progress.New(cli.Stderr)
			if bars.OnTerminal() {
				source.Progress = func(done, total int64) { bars.Show(ref, done, total) }
			}
			m, err := release.Publish(cmd.Context(), bucket, ref, p, source)
			bars.Close()
			if err != nil {
				return err
			}
			signed := "not signed"
			if source.Key != nil {
				signed = "signed by key " + keyfile.FormatID(source.Key.ID())
			}
			fmt.Fprintf(cli.Stdout, "%s for %s: %s, sha256 %s, %s, at %s\n", ref, p, cell.Bytes(m.Object.Size), m.Object.SHA256, signed, bucket.URL(""))
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&source.Entry, "entry", "", "executable to start, as a path in PATH if that is a folder")
	f.StringVar(&signKey, "sign-key", "", "file of the minisign private key to sign with")
	f.StringVar(&kind, "kind", "", "plugin: the program serves the control protocol (default: detected)")
	f.StringVar(&platform, "platform", platform, "platform that it runs on, OS-ARCH")
	return cmd
}

// passwordOfEnv reads the password of a private key from the environment, because other
// users can read command lines.
func passwordOfEnv() (string, error) {
	if password, ok := os.LookupEnv(daemon.SignPassword); ok {
		return password, nil
	}
	return "", fmt.Errorf("%s is not set", daemon.SignPassword)
}

func (cli *releaseCommands) keygenCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "keygen FILE",
		Short: "Make a key pair: FILE signs releases, FILE.pub is trusted",
		Long: `Make a pair of minisign keys. FILE is the private one, for "weir release publish
--sign-key"; it is encrypted if WEIR_SIGN_PASSWORD is set. The line of FILE.pub
goes into weir.yaml, releases.trusted_keys.`,
		Example: `  WEIR_SIGN_PASSWORD=... weir release keygen ~/.weir/publish.key`,
		Args:    command.OneArg("file"),
		RunE: func(_ *cobra.Command, args []string) error {
			if _, err := os.Stat(args[0] + ".pub"); err == nil {
				return keyThere(args[0] + ".pub")
			}
			public, private, err := minisign.GenerateKey(nil)
			if err != nil {
				return fmt.Errorf("make keys: %w", err)
			}
			how := ", not encrypted: " + daemon.SignPassword + " is not set"
			secret, err := private.MarshalText()
			if password := os.Getenv(daemon.SignPassword); err == nil && password != "" {
				how = ", encrypted"
				secret, err = minisign.EncryptKey(password, private)
			}
			if err != nil {
				return fmt.Errorf("encode the private key: %w", err)
			}
			open, err := public.MarshalText()
			if err != nil {
				return fmt.Errorf("encode the public key: %w", err)
			}
			if err := writeNew(args[0], secret, 0o600); err != nil {
				return err
			}
			if err := writeNew(args[0]+".pub", append(open, '\n'), 0o644); err != nil {
				return err
			}
			fmt.Fprintf(cli.Stdout, "key %s\n  private  %s%s\n  public   %s.pub\nTo run releases that it signs, add to weir.yaml:\n  releases: {trusted_keys: [%s]}\n",
				keyfile.FormatID(public.ID()), args[0], how, args[0], public)
			return nil
		},
	}
}

// keyThere returns the error of a key that exists.
func keyThere(path string) error {
	return usage.New(fmt.Errorf("%s: %w: give another name", path, os.ErrExist))
}

// writeNew writes a file, and fails if the file exists.
func writeNew(path string, data []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, os.ErrExist) {
		return keyThere(path)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

func (cli *releaseCommands) listCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list [NAMESPACE[/NAME]]",
		Short: "List the signal releases in the bucket",
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

func (cli *releaseCommands) showCommand() *cobra.Command {
	platform, keys := release.Host().String(), []string(nil)
	cmd := &cobra.Command{
		Use:     "show NAMESPACE/NAME@VERSION",
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

func (cli *releaseCommands) printShown(s release.Shown) {
	m := s.Manifest
	line := func(key, format string, args ...any) {
		fmt.Fprintf(cli.Stdout, "%-10s %s\n", key, fmt.Sprintf(format, args...))
	}
	line("release", "%s for %s", m.Ref, m.Platform)
	line("created", "%s", cell.LocalTime(m.Created))
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
		line("yanked", "%s: %s", cell.LocalTime(s.Yanked.At), s.Yanked.Why)
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

func (cli *releaseCommands) verifyCommand() *cobra.Command {
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

func (cli *releaseCommands) fetchCommand() *cobra.Command {
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

func (cli *releaseCommands) fetchReleases(ctx context.Context, names []string) error {
	var refs []release.Ref
	for _, name := range names {
		ref, err := release.ParseRef(name)
		if err != nil {
			return usage.New(err)
		}
		refs = append(refs, ref)
	}
	bucket, service, err := cli.Bucket(ctx)
	if err != nil {
		return err
	}
	trust, err := signalbucket.TrustOf(service)
	if err != nil {
		return err
	}
	dir, err := cli.DataDir()
	if err != nil {
		return err
	}
	bars := progress.New(cli.Stderr)
	cache, err := release.OpenCache(ctx, release.Config{Dir: filepath.Join(dir, "releases"), Trust: trust, Progress: bars.Show})
	if err != nil {
		return err
	}
	got := make([]release.Installed, len(refs))
	errs := make([]error, len(refs))
	var fetching sync.WaitGroup
	for i, ref := range refs {
		fetching.Go(func() { got[i], errs[i] = signalbucket.Fetch(ctx, cache, bucket, service, ref) })
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

func (cli *releaseCommands) yankCommand() *cobra.Command {
	var why, platform string
	cmd := &cobra.Command{
		Use:   "yank NAMESPACE/NAME@VERSION --why REASON",
		Short: "Withdraw a version: no host fetches it any more, running processes continue",
		Long: `Withdraw a version of a signal. No host fetches it any more, and a bootstrap that starts
after it has read the yank does not run it. Running processes continue, and are
restarted if they fail: pin another version to end them.
A yank is permanent: publish a new version instead.`,
		Example: `  weir release yank shop/rps@v1.4.0 --why "requests twice the memory"`,
		Args:    command.OneArg("NAMESPACE/NAME@VERSION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := release.ParseRef(args[0])
			if err != nil {
				return usage.New(err)
			}
			var p release.Platform
			if platform != "" {
				if p, err = release.ParsePlatform(platform); err != nil {
					return usage.New(err)
				}
			}
			if why == "" {
				return usage.New(errors.New("--why is missing: state the reason for its users"))
			}
			bucket, _, err := cli.Bucket(cmd.Context())
			if err != nil {
				return err
			}
			done, err := release.Yank(cmd.Context(), bucket, ref, p, release.Yanked{Why: why, At: time.Now()})
			for _, p := range done {
				fmt.Fprintf(cli.Stdout, "%s for %s is yanked\n", ref, p)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&why, "why", "", "reason, shown to users of the version (required)")
	cmd.Flags().StringVar(&platform, "platform", "", "OS-ARCH (default: all that it is published for)")
	return cmd
}

// chosen is the release that a command works on.
type chosen struct {
	ref      release.Ref
	platform release.Platform
	bucket   release.Bucket
	trust    release.Trust
}

// withRelease opens the bucket for a command about one release.
func (cli *releaseCommands) withRelease(ctx context.Context, name, platform string, keys []string, f func(chosen) error) error {
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

func parseRelease(name, platform string) (release.Ref, release.Platform, error) {
	ref, err := release.ParseRef(name)
	if err != nil {
		return release.Ref{}, release.Platform{}, usage.New(err)
	}
	p, err := release.ParsePlatform(platform)
	if err != nil {
		return release.Ref{}, release.Platform{}, usage.New(err)
	}
	return ref, p, nil
}
