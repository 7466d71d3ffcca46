package config

import (
	"path/filepath"
	"strings"

	"github.com/weirkeeper/weirkeeper/internal/bus"
)

// natsProblems returns the problems of the block "nats".
func natsProblems(d document, n bus.NATS) Problems {
	var ps Problems
	for _, p := range n.Check() {
		ps = append(ps, d.problem("nats."+p.Key, p.What))
	}
	if n.Replicas == 0 && d.given("nats.replicas") {
		ps = append(ps, d.problem("nats.replicas", "is 0: want 1 to 5"))
	}
	return ps
}

// LoadNATS returns the block "nats" of the service file below dir, which may be missing. Mistakes in other blocks are no error, so that commands reach a daemon that reports them.
func LoadNATS(dir string) (bus.NATS, error) {
	file, err := readService(dir)
	if err != nil || file.Missing {
		return bus.NATS{}, err
	}
	s, err := file.service(nil)
	if found, ok := err.(Problems); ok {
		var ours Problems
		for _, p := range found {
			if p.Key == "" || p.Key == "nats" || strings.HasPrefix(p.Key, "nats.") {
				ours = append(ours, p)
			}
		}
		err = ours.OrNil()
	}
	if err != nil {
		return bus.NATS{}, err
	}
	return s.NATS, nil
}

// below resolves the paths of the block relative to the folder of its file.
func below(n bus.NATS, file string) bus.NATS {
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil { // the working directory is gone
		return n
	}
	return n.Below(dir)
}
