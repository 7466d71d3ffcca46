package daemon

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
)

// Names of the places that may name the servers of the bus.
const (
	FlagNATS     = "--nats"
	VariableNATS = "WEIR_NATS"
)

// Bus returns how a process connects to the bus. The first place that names servers is used: the flag, the environment,
// the context of a command, weir.yaml, the data folder. n is the block of weir.yaml. Its credentials and TLS also apply to the servers of the flag,
// of the environment and of the context, unless their URLs have a user. The role is operator: a process with another role sets User.
func (s Settings) Bus(n bus.NATS, name string, log *slog.Logger) bus.Config {
	return s.BusOf("", "", n, name, log)
}

// BusOf is Bus of a process with a file of its own that may name servers. That file comes before weir.yaml. place names
// the key of the file. list has its servers with commas.
func (s Settings) BusOf(place, list string, n bus.NATS, name string, log *slog.Logger) bus.Config {
	c := bus.Config{Data: s.Data, NATS: n, Name: name, User: roles.User{Role: roles.Operator, Cluster: s.Cluster}, Log: log}
	for _, one := range []struct{ place, list, missing string }{
		{FlagNATS, s.given(FlagNATS), "not given"},
		{VariableNATS, s.given(VariableNATS), "not set"},
		{s.ContextPlace, s.given(s.ContextPlace), "no nats"},
		{place, list, "not given"},
	} {
		switch {
		case one.place == "":
		case one.list == "":
			c.Places = append(c.Places, one.place+": "+one.missing)
		default:
			c.NATS = n.At(bus.Split(one.list))
			c.Places = append(c.Places, one.place+": "+c.NATS.Show())
			return c
		}
	}
	file := filepath.Join(s.Configs, "weir.yaml")
	held := n.Show()
	if held == "" {
		held = "no nats.servers"
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			held = "no such file"
		}
	}
	c.Places = append(c.Places, file+": "+held)
	return c
}

// given returns the servers from that place.
func (s Settings) given(place string) string {
	if s.NATSFrom == place || s.NATSFrom == "" && place == FlagNATS {
		return s.NATS
	}
	return ""
}

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
