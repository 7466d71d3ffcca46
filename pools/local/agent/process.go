package agent

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
)

// defaultPath is PATH if Config.Env does not set it.
const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// process is a running copy.
type process struct {
	child *supervise.Child
	dir   string // removed with the process
	log   *slog.Logger
}

// outcome is the result of an ended copy.
type outcome struct {
	status *int // nil: ended by a signal
	text   string
	left   bool // some of its processes may still run
}

// launch starts the copy's process in its own directory.
func (a *Agent) launch(ctx context.Context, c *copyOf) (*process, error) {
	dir, err := filepath.Abs(filepath.Join(a.cfg.DataDir, c.Instance))
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("make directory of app instance %s: %w", c.Instance, err)
	}
	child, err := a.launcher.Start(ctx, supervise.Spec{
		Name: c.App + "/" + strconv.Itoa(c.Index),
		Argv: []string{"/bin/sh", "-c", c.Command},
		Env:  environment(a.cfg, c.StartRequest, dir), Dir: dir, StopGrace: a.cfg.StopGrace,
		Lines: func(_ string, line []byte) { c.output.add(strings.ToValidUTF8(string(line), "\uFFFD")) },
	})
	if err != nil {
		_ = os.RemoveAll(dir) // empty; the error of the start is more useful
		return nil, err
	}
	return &process{child, dir, a.log}, nil
}

// environment returns the environment of a copy. Of two entries with one name, the later one
// applies.
func environment(cfg Config, r StartRequest, dir string) []string {
	all := slices.Concat([]string{defaultPath}, cfg.Env, []string{
		"HOME=" + dir, "TMPDIR=" + dir,
		"WEIR_APP=" + r.App, "WEIR_VERSION=" + r.Version, "WEIR_INDEX=" + strconv.Itoa(r.Index),
		"WEIR_INSTANCE=" + r.Instance, "WEIR_CLUSTER=" + cfg.Cluster, "WEIR_POOL=" + cfg.Pool, "WEIR_NODE=" + cfg.ID,
	})
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

func (p *process) done() <-chan struct{} { return p.child.Done() }

// end returns the result of the copy, and removes its directory. Call it only after done.
func (p *process) end() outcome {
	if err := os.RemoveAll(p.dir); err != nil {
		p.log.Warn("directory of app instance not removed", "dir", p.dir, "err", err)
	}
	left := p.child.Stop(context.Background()) != nil // the process has ended: Stop returns what is left of it
	exit, _ := p.child.Exit()
	if exit.Signal != 0 {
		return outcome{text: exit.String(), left: left}
	}
	return outcome{status: &exit.Code, text: exit.String() + shellMeaning(exit.Code), left: left}
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
