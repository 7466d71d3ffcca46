package agent

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
)

// defaultPath is PATH if Config.Env does not set it.
const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// process is a running copy.
type process struct {
	child    *supervise.Child
	launcher *supervise.Launcher
	dir      string // removed with the process
	output   string // file
	writer   string // tag of the process that writes the file
	// releaseDir is the folder of its release. It is empty without a release, and if an earlier agent fetched it.
	releaseDir string
	log        *slog.Logger

	because atomic.Pointer[string] // why a rule of its node ends it; nil: none does
}

// outcome is the result of an ended copy.
type outcome struct {
	status *int // nil: ended by a signal
	text   string
	left   bool // some of its processes may still run
}

// environment returns the environment of a copy with these ports, with the folder of its release if it has one. Of two entries with one name, the later one
// applies.
func environment(cfg Config, r wire.StartRequest, chosen map[string]int, dir, releaseDir string) []string {
	all := slices.Concat([]string{defaultPath}, cfg.Env, []string{"HOME=" + dir, "TMPDIR=" + dir}, variables(r.Env), portVariables(r, chosen), []string{
		"WEIR_APP=" + r.App, "WEIR_VERSION=" + r.Version, "WEIR_INDEX=" + strconv.Itoa(r.Index),
		"WEIR_INSTANCE=" + r.Instance, "WEIR_CLUSTER=" + cfg.Cluster, "WEIR_POOL=" + cfg.Pool, "WEIR_NODE=" + cfg.ID,
		"WEIR_GROUP=" + cfg.Group, "WEIR_INSTANCE_TYPE=" + cfg.Type, "WEIR_ZONE=" + cfg.Zone, "WEIR_REGION=" + cfg.Region,
	})
	if releaseDir != "" {
		all = append(all, "WEIR_RELEASE="+r.Release, "WEIR_RELEASE_DIR="+releaseDir)
	}
	seen := map[string]bool{}
	env := make([]string, 0, len(all))
	for _, entry := range slices.Backward(all) {
		name, _, _ := strings.Cut(entry, "=")
		if !seen[name] {
			seen[name] = true
			env = append(env, entry)
		}
	}
	return env
}

// variables returns the variables of an application.
func variables(env map[string]string) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		all = append(all, name+"="+env[name])
	}
	return all
}

func (p *process) done() <-chan struct{} { return p.child.Done() }

// end returns the result of the copy, and removes its directory. Call it only after done.
func (p *process) end() outcome {
	left := p.child.Stop(context.Background()) != nil // the process has ended: Stop returns the rest of it
	exit, _ := p.child.Exit()
	out := outcome{text: exit.String(), left: left}
	if exit.Signal == 0 && !exit.Unknown {
		out.status, out.text = &exit.Code, exit.String()+shellMeaning(exit.Code)
	}
	if why := p.because.Load(); why != nil {
		out.text = wire.Clip("ended because " + *why + "; " + out.text)
	}
	p.clear(out)
	return out
}

// clear removes the directory of an ended copy, and adds the result to its output. A process that has escaped from the
// copy may still have its output open: that part is lost.
func (p *process) clear(end outcome) {
	if err := os.RemoveAll(p.dir); err != nil {
		p.log.Warn("directory of app instance not removed", "dir", p.dir, "err", err)
	}
	if !awaitWriter(p.output, writerLimit) {
		p.log.Warn("output of app instance is held open: what follows is lost", "file", p.output, "clear_err", p.launcher.Clear(p.writer))
	}
	if err := endOutput(p.output, end.text); err != nil {
		p.log.Warn("end of app instance not added to its output", "file", p.output, "err", err)
	}
}

// shellMeaning returns the meaning of an exit status of /bin/sh, as in POSIX: 126, 127, or more than
// 128 after a signal.
func shellMeaning(status int) string {
	switch name := unix.SignalName(syscall.Signal(status - 128)); {
	case status == 126:
		return " (the command cannot be executed)"
	case status == 127:
		return " (the command is not found)"
	case status > 128 && name != "":
		return " (killed by " + name + ")"
	}
	return ""
}

// stop sends SIGTERM to the process, kills it after the grace, and returns after its end.
func (p *process) stop() {
	if err := p.child.Stop(context.Background()); err != nil {
		p.log.Error("app instance not stopped", "err", err)
	}
}
