package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsserver"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/smalldisk"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// faultRoles are the processes that are killed and halted.
func faultRoles() []string {
	return []string{"signal", "autoscaler", "bootstrap", "metrics", "agent", "keeper", "up"}
}

// runningFaults are done while "weir up" runs.
func runningFaults() (all []fault) {
	for _, role := range faultRoles() {
		all = append(all, fault{name: "kill -9 " + role, begin: killRole(role)})
	}
	for _, role := range faultRoles() {
		all = append(all, fault{name: "halt " + role, begin: haltRole(role), end: (*faultWorld).resume})
	}
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		all = append(all, fault{name: fmt.Sprintf("clock step %v", by), begin: stepAll(by), end: stepAll(0)}, clockOfAgent(by))
	}
	var free func()
	return append(all,
		fault{name: "disk full", begin: func(w *faultWorld) { free = w.fillDisk() }, end: func(*faultWorld) { free() }},
		fault{name: "file limit 64 while it runs", begin: (*faultWorld).limitFiles, end: (*faultWorld).again},
		fault{name: "file limit 64 from the start", begin: (*faultWorld).startLimited, end: (*faultWorld).again},
	)
}

// fillDisk fills the disk, and then what the bus had reserved of it. Without room, it had reserved nothing.
func (w *faultWorld) fillDisk() (free func()) {
	w.Helper()
	first := smalldisk.Fill(w.T, w.data)
	eventually(w.T, "the reserve of the bus is released", func() error {
		info, err := os.Stat(filepath.Join(w.data, "bus", "reserve"))
		if err == nil && info.Size() > 0 {
			return fmt.Errorf("it has %d bytes", info.Size())
		}
		return nil
	})
	second := smalldisk.Fill(w.T, w.data)
	return func() { first(); second() }
}

// of returns the processes of a role; the first one of each is enough for a fault.
func (w *faultWorld) of(role string) (pids []int) {
	w.Helper()
	eventually(w.T, "a process "+role, func() error {
		for _, p := range processesWith(w.data) {
			if p.role() == role {
				pids = append(pids, number(p.id))
			}
		}
		if pids == nil {
			return errors.New("there is none")
		}
		return nil
	})
	return pids
}

func killRole(role string) func(*faultWorld) {
	return func(w *faultWorld) {
		if role != "up" {
			w.signal(w.of(role)[0], syscall.SIGKILL)
			return
		}
		w.signal(w.u.cmd.Process.Pid, syscall.SIGKILL)
		w.u.expectNothingLeft(w.T)
		w.restart()
	}
}

// restart starts "weir up" again after it has ended.
func (w *faultWorld) restart() {
	w.Helper()
	w.launch()
	w.u.waitFor(w.T, "ready in")
}

func haltRole(role string) func(*faultWorld) {
	return func(w *faultWorld) {
		pid := w.of(role)[0]
		if role == "up" {
			pid = w.u.cmd.Process.Pid
		}
		w.pids = []int{pid}
		w.signal(pid, syscall.SIGSTOP)
	}
}

// resume continues what was halted; a process that was ended meanwhile is gone.
func (w *faultWorld) resume() {
	for _, pid := range w.pids {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil && !errors.Is(err, syscall.ESRCH) {
			w.Fatal(err)
		}
	}
}

func (w *faultWorld) signal(pid int, s syscall.Signal) {
	w.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		w.Fatalf("%v to process %d: %v", s, pid, err)
	}
}

// stepAll steps the clocks of all processes of weir, and of this one, which runs the commands.
func stepAll(by time.Duration) func(*faultWorld) {
	return func(w *faultWorld) {
		pids := []int{os.Getpid()}
		for _, p := range processesWith(w.data) {
			if p.role() != "app" {
				pids = append(pids, number(p.id))
			}
		}
		for _, pid := range pids {
			if err := stepClock(pid, by); err != nil && !errors.Is(err, fs.ErrNotExist) {
				w.Fatal(err)
			}
		}
	}
}

// clockOfAgent steps the clock of one agent alone: that of one machine is wrong.
func clockOfAgent(by time.Duration) fault {
	step := func(w *faultWorld, by time.Duration) {
		for _, pid := range w.pids {
			if err := stepClock(pid, by); err != nil && !errors.Is(err, fs.ErrNotExist) {
				w.Fatal(err)
			}
		}
	}
	return fault{
		name: fmt.Sprintf("clock step %v of one agent", by),
		begin: func(w *faultWorld) {
			w.pids = w.of("agent")[:1]
			step(w, by)
		},
		end: func(w *faultWorld) { step(w, 0) },
	}
}

// fewFiles is how many files a process may have open after a fault.
const fewFiles = 64

// limitFiles limits the files of each process of weir; the autoscaler and a signal start anew
// with that.
func (w *faultWorld) limitFiles() {
	for _, p := range processesWith(w.data) {
		w.limit(number(p.id))
	}
	for _, role := range []string{"autoscaler", "signal"} {
		w.signal(w.of(role)[0], syscall.SIGKILL)
	}
}

func (w *faultWorld) limit(pid int) {
	w.Helper()
	err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: fewFiles, Max: fewFiles}, nil)
	if err != nil && !errors.Is(err, syscall.ESRCH) {
		w.Fatalf("limit the files of process %d: %v", pid, err)
	}
}

// startLimited starts "weir up" again, which has few files from the start.
func (w *faultWorld) startLimited() {
	w.u.end(w.T)
	w.launch()
	w.limit(w.u.cmd.Process.Pid)
	w.startedOrEnded()
}

// again ends "weir up", and starts it without limits.
func (w *faultWorld) again() {
	w.u.end(w.T)
	w.restart()
}

// durable are the files that live on between two runs, by kind: one of each is damaged.
func durable() []string {
	return []string{
		`bus/jetstream/.*KV_weir-pool:local:default/msgs/\d+\.blk`, `bus/jetstream/.*KV_weir-pool:local:default/msgs/index\.db`, `bus/jetstream/.*KV_weir-pool:local:default/meta\.inf`,
		`bus/jetstream/.*KV_weir-pool:local:default/meta\.sum`,
		`bus/jetstream/.*KV_weir-apps_local/msgs/\d+\.blk`, `bus/jetstream/.*KV_weir-apps_local/msgs/index\.db`, `bus/jetstream/.*KV_weir-apps_local/meta\.inf`,
		`bus/jetstream/.*KV_weir-harmonizer:local/msgs/\d+\.blk`, `bus/jetstream/.*KV_weir-harmonizer:local/msgs/index\.db`, `bus/jetstream/.*KV_weir-harmonizer:local/meta\.inf`,
		`bus/jetstream/.*weir-summaries:local:default/msgs/\d+\.blk`, `bus/jetstream/.*weir-summaries:local:default/msgs/index\.db`, `bus/jetstream/.*weir-summaries:local:default/meta\.inf`,
		`bus/jetstream/.*weir-evidence:local:default/msgs/\d+\.blk`, `bus/jetstream/.*weir-evidence:local:default/meta\.inf`,
		`bus/jetstream/.*weir-ledger:local:default/msgs/\d+\.blk`, `bus/jetstream/.*weir-ledger:local:default/msgs/index\.db`, `bus/jetstream/.*weir-ledger:local:default/meta\.inf`,
		`metrics/.*wal/\d+`, `metrics\.token`, `web\.tokens`,
		`releases/sha256-[^/]*/instance_count`, `releases/refs/.*`, `releases/seen/.*`,
		`local/groups\.json`, `s3/keys\.json`, `s3/buckets/.*\.tar\.gz`, `s3/buckets/.*\.json`,
		`config/weir\.yaml`, `config/harmonizer\.yaml`, `config/local/default\.yaml`,
		`integrity/.*apps\.jsonl`, `integrity/.*pool.*\.jsonl`, `locks/.*`,
	}
}

// damages flip bytes of a file while "weir up" does not run. Each one begins with the files as
// they were before.
func damages(w *faultWorld) (all []fault) {
	keep := filepath.Join(w.TempDir(), "keep")
	for _, pattern := range durable() {
		all = append(all, fault{name: "bytes flipped: " + pattern, stays: true, begin: func(w *faultWorld) {
			w.betweenRuns(keep, func() {
				if file := w.find(pattern); file != "" {
					w.flip(file)
				}
			})
		}})
	}
	all = append(all, fault{name: "bytes flipped: bus/address.json", stays: true, begin: func(w *faultWorld) {
		w.betweenRuns(keep, func() { // only a killed run leaves one
			if err := os.WriteFile(filepath.Join(w.data, "bus", "address.json"), []byte("{\"url\":\"nats://127.0.0.1:4\xb322\""), 0o600); err != nil {
				w.Fatal(err)
			}
		})
	}})
	all = append(all, fault{name: "bus empty", stays: true, begin: func(w *faultWorld) {
		w.betweenRuns(keep, func() {
			if err := os.RemoveAll(filepath.Join(w.data, "bus")); err != nil {
				w.Fatal(err)
			}
		})
	}})
	return append(all, fault{name: "as before", begin: func(w *faultWorld) { w.betweenRuns(keep, func() {}) }})
}

// betweenRuns ends "weir up", puts its files back as they were before the first damage, damages
// them, and starts it again.
func (w *faultWorld) betweenRuns(keep string, damage func()) {
	w.Helper()
	_, err := os.Stat(keep)
	first := errors.Is(err, fs.ErrNotExist)
	if first {
		w.saveEvidence()
	}
	w.u.end(w.T)
	if first {
		w.copyTree(w.data, keep)
	} else {
		if err := os.RemoveAll(w.data); err != nil {
			w.Fatal(err)
		}
		w.copyTree(keep, w.data)
	}
	damage()
	w.launch()
	w.startedOrEnded()
}

// saveEvidence stores the evidence of a repair.
func (w *faultWorld) saveEvidence() {
	w.Helper()
	b, err := bus.Open(w.Context(), bus.Config{
		Data: w.data, Name: "test", Log: slog.New(slog.DiscardHandler), Serve: natsserver.Serve,
		User: roles.User{Role: roles.Pool, Cluster: "local", Pool: "default"},
	})
	if err != nil {
		w.Fatal(err)
	}
	defer b.Close()
	evidence, err := state.NewEvidence(b.JetStream(), "local", "default")
	if err == nil {
		_, err = evidence.Save(w.Context(), "i-0", []byte(`{"pool":"default","node":"i-0","attempt":"1"}`))
	}
	if err != nil {
		w.Fatal(err)
	}
}

// startedOrEnded waits until "weir up" is ready, warns that there is no tick, or ends with an
// error, which is logged.
func (w *faultWorld) startedOrEnded() {
	w.Helper()
	eventually(w.T, "weir up, or its error", func() error {
		out := w.u.output()
		if w.u.ended() == nil {
			w.Logf("weir up does not start: %s", out[strings.LastIndex(out, "\n")+1:])
			return nil
		}
		if !strings.Contains(out, "ready in") && !strings.Contains(out, "no tick for") {
			return errors.New(out)
		}
		return nil
	})
}

func (w *faultWorld) copyTree(from, to string) {
	w.Helper()
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		w.Fatalf("copy %s: %v\n%s", from, err, out)
	}
}

// find returns the largest file of a kind; empty without such a file.
func (w *faultWorld) find(pattern string) (found string) {
	w.Helper()
	wanted, largest := regexp.MustCompile("^"+pattern+"$"), int64(0)
	err := filepath.WalkDir(w.data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rest, err := filepath.Rel(w.data, path)
		if err != nil || !wanted.MatchString(rest) {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Size() > largest {
			found, largest = path, info.Size()
		}
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	if found == "" {
		w.Errorf("no file %s: is it still written?", pattern)
	}
	return found
}

// flip inverts some bytes at the middle of a file, and at its end.
func (w *faultWorld) flip(path string) {
	w.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		w.Fatal(err)
	}
	for _, at := range []int{len(data) / 2, len(data)/2 + 1, len(data) - 2} {
		if at >= 0 {
			data[at] ^= 0xff
		}
	}
	info, err := os.Stat(path)
	if err == nil {
		err = errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, data, 0o600), os.Chmod(path, info.Mode()))
	}
	if err != nil {
		w.Fatal(err)
	}
	w.Logf("flipped bytes of %s", path)
}

// busFaults are those of a bus that is not in "weir up".
func busFaults(bus *convergeBus) []fault {
	return []fault{
		{name: "bus away", begin: func(*faultWorld) { bus.stop() }, end: func(*faultWorld) { bus.start() }},
		{name: "bus empty while all runs", stays: true, begin: func(w *faultWorld) {
			bus.stop()
			if err := os.RemoveAll(filepath.Join(bus.dir, "jetstream")); err != nil {
				w.Fatal(err)
			}
			bus.start()
		}},
	}
}
