package workflow

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/nodehealth"
)

const (
	maxErrors = 4 << 10 // bytes of standard error that are stored
	// pipesOpen is how long a process that outlives its command may hold the pipes.
	pipesOpen = time.Second
)

func checkCommand(argv []string, wrong func(path string, err error)) {
	if len(argv) == 0 || argv[0] == "" {
		wrong("argv", errors.New("is missing: want the program and its arguments"))
		return
	}
	if strings.Contains(argv[0], "/") && !filepath.IsAbs(argv[0]) {
		wrong("argv[0]", fmt.Errorf("is %.100q: want an absolute path, or a name in PATH", argv[0]))
	} else if _, err := exec.LookPath(argv[0]); err != nil {
		wrong("argv[0]", err)
	}
	for i, text := range argv[1:] {
		_, err := render(text, nodehealth.Input{})
		wrong(fmt.Sprintf("argv[%d]", i+1), err)
	}
}

// command runs a program until it or ctx ends. A separate launcher starts it, and cleans up all
// processes that the program started before command returns.
func (r *Runner) command(ctx context.Context, argv []string, body []byte) (nodehealth.Result, error) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return nodehealth.Result{}, err
	}
	launcher, err := supervise.NewLauncher(supervise.Config{KeeperArgv: r.config.Keeper, Log: r.config.Log})
	if err != nil {
		return nodehealth.Result{}, err
	}
	streams, err := openStreams(body)
	if err != nil {
		return nodehealth.Result{}, err
	}
	exit, err := r.runOnce(ctx, launcher, supervise.Spec{
		Name: "workflow " + argv[0], Argv: append([]string{path}, argv[1:]...), Title: argv[0], Dir: "/", Env: environment(),
		Stdin: streams.theirs[0], Stdout: streams.theirs[1], Stderr: streams.theirs[2],
	})
	out, errs := streams.end()
	if err != nil {
		return nodehealth.Result{}, err
	}
	output := response{text: out.kept.Bytes(), cut: out.cut}
	if exit.Signal != 0 || exit.Code != 0 {
		output.failure = fmt.Sprintf("the command ended with %v: %s", exit, errs.kept.String())
	}
	return output.result(), nil
}

// runOnce starts one program in a separate launcher, and waits for its end. If ctx ends first, it
// kills the program and returns the error of ctx.
func (r *Runner) runOnce(ctx context.Context, launcher *supervise.Launcher, spec supervise.Spec) (supervise.Exit, error) {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	var left error // processes that the launcher could not end
	wg.Go(func() { left = launcher.Run(running) })
	child, err := launcher.Start(ctx, spec)
	if err != nil {
		stop()
		wg.Wait()
		return supervise.Exit{}, errors.Join(err, left)
	}
	select {
	case <-child.Done():
	case <-ctx.Done():
		err = ctx.Err()
	}
	survivors := child.Stop(ctx)
	stop()
	wg.Wait()
	if left := errors.Join(survivors, left); left != nil {
		r.config.Log.Warn("workflow cleanup failed", "command", spec.Title, "err", left)
	}
	exit, _ := child.Exit()
	return exit, err
}

// environment returns the variables that a command inherits.
func environment() []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "LANG", "TZ"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}
