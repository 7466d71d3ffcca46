package command

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirkeeper/weirkeeper/internal/config"
)

// Settings are what the flags of a daemon say, with their defaults.
type Settings struct {
	Data      string // folder, absolute
	NATS      string // URL of the bus; empty: the one of the files, or of the data folder
	Configs   string // folder of weir.yaml and CLUSTER/POOL.yaml
	Cluster   string
	Pool      string
	LogLevel  string
	LogFormat string
	// Program is the executable of weir, an absolute path: daemons start each other
	// by it.
	Program string
}

// DataParts are the folders of a data folder that may be on disks of their own.
func DataParts() []string { return []string{"bus", "metrics", "releases", "s3", "local", "run"} }

// UpConfigs is where "weir up" writes its configuration.
func UpConfigs(data string) string { return filepath.Join(data, "config") }

// SignPassword is the variable that holds the password of a private key.
const SignPassword = "WEIR_SIGN_PASSWORD"

// NATSOr returns the URL of the bus: that of the flags or else that of the files.
func (s Settings) NATSOr(service config.Service) string { return cmp.Or(s.NATS, service.NATS.URL) }

// Argv is the command line that starts a daemon.
func (s Settings) Argv(command string, more ...string) []string {
	return append([]string{
		s.Program, command, "--data", s.Data, "--config-dir", s.Configs, "--cluster", s.Cluster, "--pool", s.Pool,
		"--log-level", s.LogLevel, "--log-format", s.LogFormat,
	}, more...)
}

// Env is the environment of this binary's daemons. It holds the bus, whose
// URL may have a password, as a command line must not.
func (s Settings) Env() []string {
	env := WithoutKeys(os.Environ())
	if s.NATS != "" {
		env = append(env, "WEIR_NATS="+s.NATS)
	}
	return env
}

// WithoutKeys is env without the keys to the bus and to AWS.
func WithoutKeys(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		return strings.HasPrefix(entry, "AWS_") || strings.HasPrefix(entry, "WEIR_NATS=") || strings.HasPrefix(entry, SignPassword+"=")
	})
}
