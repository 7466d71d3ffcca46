package releases

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

func (cli *commands) publishCommand() *cobra.Command {
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
			bucket, service, err := cli.Bucket(cmd.Context())
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
			if why := refusedBy(service, source.Key); why != "" {
				fmt.Fprintf(cli.Stderr, "weir: warning: each host with this weir.yaml refuses the release: %s\n", why)
			}
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

// refusedBy returns why a host with the service file refuses a release with this signature; nil: without one. It is empty if the host
// accepts it.
func refusedBy(service config.Service, key *minisign.PrivateKey) string {
	trust, err := signalbucket.TrustOf(service)
	switch {
	case err != nil:
		return err.Error()
	case key == nil && trust.Required:
		return "releases.trusted_keys requires a signature; publish with --sign-key"
	case key != nil && len(trust.Keys) > 0 && !slices.ContainsFunc(trust.Keys, func(k minisign.PublicKey) bool { return k.ID() == key.ID() }):
		return fmt.Sprintf("releases.trusted_keys lacks key %s", keyfile.FormatID(key.ID()))
	}
	return ""
}

// passwordOfEnv reads the password of a private key from the environment, because other
// users can read command lines.
func passwordOfEnv() (string, error) {
	if password, ok := os.LookupEnv(daemon.SignPassword); ok {
		return password, nil
	}
	return "", fmt.Errorf("%s is not set", daemon.SignPassword)
}

func (cli *commands) keygenCommand() *cobra.Command {
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

func (cli *commands) yankCommand() *cobra.Command {
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
