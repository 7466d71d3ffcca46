package command

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
)

// Names of the places that may name the servers of the bus.
const (
	flagNATS     = "--nats"
	variableNATS = "WEIR_NATS"
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
		{flagNATS, s.given(flagNATS), "not given"},
		{variableNATS, s.given(variableNATS), "not set"},
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
	if s.NATSFrom == place || s.NATSFrom == "" && place == flagNATS {
		return s.NATS
	}
	return ""
}

// takeNATS completes the flag by the environment, and checks the servers. The environment is not the flag's default,
// because help would print a password in it.
func (r *Root) takeNATS() error {
	switch {
	case r.NATS == "":
		r.NATS, r.NATSFrom = os.Getenv(variableNATS), variableNATS
	case r.NATSFrom == "":
		r.NATSFrom = flagNATS
	}
	for i, server := range bus.Split(r.NATS) {
		if err := bus.CheckServer(server); err != nil {
			return Usage(fmt.Errorf("%s: server %d %w", r.NATSFrom, i+1, err))
		}
	}
	return nil
}
