package agent

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
)

// starter starts the processes of copies.
type starter struct {
	cfg      Config
	launcher *supervise.Launcher
	records  recorder
	log      *slog.Logger
}

// start starts the copy's process in its own directory.
func (s starter) start(ctx context.Context, c *copyOf, releaseDir string) (*process, error) {
	dir, err := filepath.Abs(filepath.Join(s.cfg.DataDir, c.Instance))
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("make directory of app instance %s: %w", c.Instance, err)
	}
	output := outputPath(s.cfg.DataDir, c.Instance)
	if err := os.MkdirAll(filepath.Dir(output), 0o700); err != nil {
		return nil, fmt.Errorf("make the folder for the output of app instances: %w", err)
	}
	out, err := createOutput(output)
	if err != nil {
		_ = os.RemoveAll(dir) // empty; the other error is more useful
		return nil, fmt.Errorf("make the file for the output of app instance %s: %w", c.Instance, err)
	}
	defer func() { _ = out.Close() }() // the writer has its own
	p := &process{launcher: s.launcher, dir: dir, output: output, releaseDir: releaseDir, log: s.log}
	if err = s.startProcess(ctx, c, p, out, environment(s.cfg, c.StartRequest, c.ports, dir, releaseDir)); err != nil {
		_ = os.RemoveAll(dir) // empty; the error of the start is more useful
		if !c.fetching {      // otherwise the record has the end of the copy
			s.records.remove(c.Instance)
		}
		return nil, err
	}
	return p, nil
}

// startProcess starts the process of a copy, and the writer of its output.
func (s starter) startProcess(ctx context.Context, c *copyOf, p *process, output *os.File, env []string) error {
	spec := supervise.Spec{
		Name: nameOf(c.StartRequest), Argv: []string{"/bin/sh", "-c", c.Command},
		Env: env, Dir: p.dir, StopGrace: s.cfg.StopGrace,
	}
	if err := s.records.detach(c, &spec); err != nil {
		return err
	}
	p.writer = writerTag(c)
	pipe, err := startWriter(ctx, s.launcher, spec.Name, p.writer, output)
	if err != nil {
		return fmt.Errorf("start the writer of the output: %w", err)
	}
	defer func() { _ = pipe.Close() }() // the copy has its own
	spec.Stdout, spec.Stderr = pipe, pipe
	if p.child, err = s.launcher.Start(ctx, spec); err != nil {
		return err
	}
	return s.records.identify(c, p.child)
}
