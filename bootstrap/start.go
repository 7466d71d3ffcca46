package bootstrap

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise/output"
)

// spec is called before each start.
func (sig *signal) spec(ctx context.Context) (supervise.Spec, error) {
	sig.endSession()
	spec, err := sig.prepare(ctx)
	if err != nil {
		return supervise.Spec{}, err
	}
	return sig.beginSession(spec)
}

func (sig *signal) prepare(ctx context.Context) (supervise.Spec, error) {
	at, err := sig.appProcess.settle(sig)
	if err != nil {
		return supervise.Spec{}, err
	}
	spec := supervise.Spec{
		Name: sig.title(), StopGrace: signalStopGrace, Lines: output.LogLines(sig.log), Tail: sig.appProcess.tail,
		Limits: supervise.Limits(sig.plan.Limits), Isolated: true,
	}
	executed := "/" // the kernel checks no folder for a sealed executable
	words := []string{sig.plan.Namespace, sig.plan.Name, at.app}
	switch installed := sig.installed(); {
	case sig.plan.Shipped():
		spec.Argv, spec.Title = sig.appProcess.config.Shipped(sig.plan, at.app), "weir: signal "+at.app
		executed = spec.Argv[0]
	case len(installed.Args) == 0:
		spec.Argv = append([]string{sig.plan.Name}, words...)
		if len(installed.Manifest.Files) > 1 {
			executed = filepath.Dir(installed.Dir) // the program reads other files of its release
		}
	default:
		spec.Dir, executed = installed.Dir, filepath.Dir(installed.Dir) // open permits the user to read Dir itself
		spec.Argv = slices.Concat([]string{filepath.Join(installed.Dir, installed.Entry)}, installed.Args, words)
	}
	var why string
	if spec.User, why, err = sig.runsAs(at, executed); err != nil {
		return supervise.Spec{}, err
	}
	sig.setUser(spec.User, why)
	spec.Env = sig.environment(spec.User)
	if spec.User != 0 && spec.Dir == "" {
		spec.Dir = "/" // bootstrap's working directory may be inaccessible to it
	}
	if !sig.plan.Shipped() {
		spec.Executable, err = sig.appProcess.releaseCache.open(ctx, sig.release, spec.User)
	}
	return spec, err
}

func closeFile(f *os.File) {
	if f != nil {
		f.Close()
	}
}

// probe returns nil when the process listens at its address and, if it is a plugin, has described itself. The
// description comes first: a plugin sends it when it listens, so no polling is needed.
func (sig *signal) probe(ctx context.Context) error {
	if err := sig.describe(ctx); err != nil {
		return err
	}
	return listens(sig.process.Status().PID, sig.currentPlace().address)
}
