package harmonizerd

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
	"github.com/weirkeeper/weirkeeper/internal/platform/terminal"
)

// follower follows the harmonizer's file. The rules take over the numbers of apps.Live, which end no copy. Other keys need a
// restart, and a file that is not valid changes nothing. Each change is a finding.
type follower struct {
	Parts
	enqueue func(context.Context, apps.Event) error
	running config.Harmonizer // as it was read at the start
	last    config.Harmonizer // as it was read last

	mu    sync.Mutex
	waits string // why the file is not in use, or not all of it; empty: it is
}

func newFollower(p Parts, enqueue func(context.Context, apps.Event) error) *follower {
	return &follower{Parts: p, enqueue: enqueue, running: p.File, last: p.File}
}

// run reads the file now, since it may have changed since the start, and after each change.
func (f *follower) run(ctx context.Context) error {
	stands := func() bool { return true }
	for {
		if err := f.read(ctx, stands); err != nil {
			return nil // ctx has ended
		}
		select {
		case <-ctx.Done():
			return nil
		case <-f.Watcher.Changes():
			stands = f.Watcher.Stands
		}
	}
}

// read takes the file over, unless it changed while it was read: then another change follows. It returns an error only if ctx ends.
func (f *follower) read(ctx context.Context, stands func() bool) error {
	file, err := f.Read()
	if err == nil {
		err = file.Rules().WithDefaults().Validate()
	}
	switch {
	case !stands():
		return nil
	case err != nil:
		what := terminal.OneLine("the file is rejected, and the earlier one stays in use: " + err.Error())
		if !f.wait(what) {
			return nil
		}
		f.Log.Error("configuration rejected", "err", err)
		return f.enqueue(ctx, apps.Configured{Config: f.last.Rules().WithDefaults(), What: what})
	}
	change := api.ConfigurationChangeOf(config.HarmonizerParts(f.last), config.HarmonizerParts(file))
	var restart []string
	for _, name := range api.ConfigurationChangeOf(config.HarmonizerParts(f.running), config.HarmonizerParts(file)).Names() {
		if !slices.Contains(apps.Live(), name) {
			restart = append(restart, name)
		}
	}
	slices.Sort(restart)
	waits := ""
	if len(restart) > 0 {
		waits = "restart the harmonizer for " + strings.Join(restart, ", ")
	}
	again := f.wait(waits)
	if len(change.Names()) == 0 && !again {
		return nil
	}
	f.last = file
	what := strings.Trim(strings.Join([]string{change.String(), waits}, "; "), "; ")
	if what == "" {
		what = "the file is as it was"
	}
	f.Log.Info("configuration", "change", what)
	return f.enqueue(ctx, apps.Configured{Config: file.Rules().WithDefaults(), What: what})
}

// wait notes why the file is not in use, and reports whether that is new.
func (f *follower) wait(why string) (changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	changed, f.waits = f.waits != why, why
	return changed
}

func (f *follower) check() admin.Check {
	return admin.Check{Name: "configuration", Read: func(context.Context) admin.Result {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.waits != "" {
			return admin.Result{State: admin.Degraded, Detail: f.waits, Remedy: "correct the file, or restart the harmonizer"}
		}
		return admin.Result{State: admin.OK, Detail: "the file is in use"}
	}}
}
