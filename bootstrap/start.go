package bootstrap

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise/output"
)

// spec is asked before each start.
func (sig *signal) spec(ctx context.Context) (supervise.Spec, error) {
	sig.endSession()
	spec, err := sig.prepare(ctx)
	if err != nil {
		return supervise.Spec{}, err
	}
	return sig.beginSession(spec)
}

func (sig *signal) prepare(ctx context.Context) (supervise.Spec, error) {
	at, err := sig.seat.settle(sig)
	if err != nil {
		return supervise.Spec{}, err
	}
	config := sig.seat.config
	spec := supervise.Spec{
		Name: sig.title(), Env: slices.Concat(config.SignalEnv, sig.seat.environment()),
		StopGrace: signalStopGrace, Lines: output.LogLines(sig.log), Tail: sig.seat.tail,
		Limits: supervise.Limits(sig.plan.Limits),
	}
	if sig.plan.Shipped() {
		spec.Argv, spec.Title = config.Shipped(sig.plan, at.app), "weir: signal "+at.app
		return spec, nil
	}
	if spec.Executable, err = sig.seat.shelf.open(ctx, sig.release); err != nil {
		return supervise.Spec{}, err
	}
	words := []string{sig.plan.Namespace, sig.plan.Name, at.app}
	installed := sig.release.installed
	if len(installed.Args) == 0 {
		spec.Argv = append([]string{sig.plan.Name}, words...)
		return spec, nil
	}
	spec.Dir = installed.Dir
	spec.Argv = slices.Concat([]string{filepath.Join(installed.Dir, installed.Entry)}, installed.Args, words)
	return spec, nil
}

func closeFile(f *os.File) {
	if f != nil {
		f.Close()
	}
}

// probe returns nil when what was started listens at its address and, if it is a
// plugin, has said what it is. That comes first: a plugin says it when it listens,
// so that nobody has to look again and again.
func (sig *signal) probe(ctx context.Context) error {
	if err := sig.describe(ctx); err != nil {
		return err
	}
	return listens(sig.process.Status().PID, sig.at().address)
}
