package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
)

// TestRestoreOfAnOlderCopy restores a backup that lacks the newest application, first with the daemons on, then with all
// but the agents off. The older copy is detected, nothing is stopped and nothing shrinks until an operator accepts it.
func TestRestoreOfAnOlderCopy(t *testing.T) {
	t.Parallel()
	w := newBusWorld(t)
	operator := w.operator()
	admin := w.folder(roles.User{Role: roles.Admin, Cluster: busCluster}, w.urls(), "")
	file := filepath.Join(t.TempDir(), "prod.tar")
	w.command(admin, "state", "backup", file, "--timeout", patience.String())
	if r := w.run(admin, "state", "restore", file); r.code != 1 || !strings.Contains(r.stderr, "--replace deletes what exists first") {
		t.Errorf("a restore over existing buckets: %+v", r)
	}
	for _, off := range []bool{false, true} {
		fault := fmt.Sprintf("restore, daemons off: %v", off)
		w.setLater(operator)
		before, calls := w.instances(), len(w.cloud.Calls())
		var again []func()
		if off {
			again = w.stopDaemons("host", "harmonizer", "placer")
		}
		w.command(admin, "state", "restore", file, "--replace", "--timeout", patience.String())
		for _, start := range again {
			start()
		}
		eventually(t, fault+": an alarm about application later", func() error {
			r := w.run(operator, "state", "check")
			if r.code != 1 || !strings.Contains(r.stdout, "weir-apps_"+busCluster) || !strings.Contains(r.stdout, "later") {
				return errors.New(r.stdout + r.stderr)
			}
			return nil
		})
		w.nothingHappened(fault, before, calls)
		w.acceptAll(operator)
		if !off { // a placer that runs keeps the rows of before: docs/backup.md
			for _, start := range w.stopDaemons("placer") {
				start()
			}
		}
		eventually(t, fault+": the end of application later", func() error {
			if got := runningOf(w.instances()); got != busInstances {
				return fmt.Errorf("%d instances run, want %d", got, busInstances)
			}
			return nil
		})
	}
}

// runningOf returns the number of running processes.
func runningOf(instances map[string]bool) (running int) {
	for runs := range maps.Values(instances) {
		if runs {
			running++
		}
	}
	return running
}

// setLater sets an application with one instance, and waits until it runs.
func (w *busWorld) setLater(operator string) {
	w.Helper()
	w.command(operator, "app", "set", "later", "--instances", "1", "--cpus", "0", "--yes", "--mem", "16",
		"--command", fmt.Sprintf("echo $$ >> %s/$$; exec sleep 100000", w.started))
	eventually(w, "an instance of application later", func() error {
		if got := runningOf(w.instances()); got != busInstances+1 {
			return fmt.Errorf("%d instances run, want %d", got, busInstances+1)
		}
		return nil
	})
}

// acceptAll accepts what each reader reports, until none reports anything.
func (w *busWorld) acceptAll(operator string) {
	w.Helper()
	eventually(w, "the end of all alarms", func() error {
		r := w.run(operator, "state", "check")
		if r.code == 0 {
			return nil
		}
		for _, reader := range []string{"apps", integrity.PoolPrefix + busPool} {
			if strings.Contains(r.stdout, "weir state accept "+reader+" ") {
				w.run(operator, "state", "accept", reader, "--reason", "restored", "--timeout", "10s")
			}
		}
		return errors.New(r.stdout + r.stderr)
	})
}

// stopDaemons ends the daemons of these kinds. Each result starts one again, with its data folder.
func (w *busWorld) stopDaemons(kinds ...string) (again []func()) {
	w.Helper()
	for i, d := range w.daemons {
		if kind, _, _ := strings.Cut(d.name, " "); !slices.Contains(kinds, kind) {
			continue
		}
		if err := d.cmd.Process.Signal(os.Interrupt); err != nil {
			w.Fatal(err)
		}
		<-d.done
		again = append(again, func() { w.daemons[i] = w.startProcess(d.name, d.args, d.cmd.Args[1:]) })
	}
	return again
}
