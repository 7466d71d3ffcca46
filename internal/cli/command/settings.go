package command

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Settings are the flags of a daemon, with defaults.
type Settings struct {
	Data     string // absolute path of the data folder
	NATS     string // servers of the bus, with commas; empty: from the files, or the data folder's bus
	NATSFrom string // "--nats", "WEIR_NATS" or ContextPlace; empty: --nats
	Configs  string // folder of weir.yaml and CLUSTER/POOL.yaml
	// ContextPlace names the context of a command, or the file without a current one, in errors; empty: of a daemon.
	ContextPlace string
	Cluster      string
	Pool         string
	LogLevel     string
	LogFormat    string
	// Program is the absolute path of weir's executable, with which daemons start each other.
	Program string
}

// DataParts returns the subfolders of a data folder that may be separate disks.
func DataParts() []string { return []string{"bus", "metrics", "releases", "s3", "local", "run"} }

// UpConfigs returns the folder where "weir up" writes its configuration.
func UpConfigs(data string) string { return filepath.Join(data, "config") }

// MetricsToken returns the default file with the token for writes of metrics over HTTP.
func MetricsToken(data string) string { return filepath.Join(data, "metrics.token") }

// WebTokens returns the file with the token of the dashboard of "weir up".
func WebTokens(data string) string { return filepath.Join(data, "web.tokens") }

// SignPassword is the variable with the password of a private key.
const SignPassword = "WEIR_SIGN_PASSWORD"

// Argv returns the command line of a daemon.
func (s Settings) Argv(command string, more ...string) []string {
	return append([]string{
		s.Program, command, "--data", s.Data, "--config-dir", s.Configs, "--cluster", s.Cluster, "--pool", s.Pool,
		"--log-level", s.LogLevel, "--log-format", s.LogFormat,
	}, more...)
}

// Env returns the environment of our daemons. The URL of the bus is there because it may have a password, which a
// command line must not show.
func (s Settings) Env() []string {
	env := WithoutKeys(os.Environ())
	if s.NATS != "" {
		env = append(env, "WEIR_NATS="+s.NATS)
	}
	return env
}

// WithoutKeys returns env without credentials of the bus and of AWS, and without the variables of systemd for this
// process alone.
func WithoutKeys(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		return strings.HasPrefix(entry, "NOTIFY_SOCKET=") || strings.HasPrefix(entry, "WATCHDOG_") || strings.HasPrefix(entry, "AWS_") || strings.HasPrefix(entry, "WEIR_NATS=") || strings.HasPrefix(entry, SignPassword+"=")
	})
}
