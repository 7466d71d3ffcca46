package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"
)

// BenchmarkRestart measures from kill -9 until the next process answers. It reports the ratio to the floor: starting
// the same executable without supervision.
func BenchmarkRestart(b *testing.B) {
	launcher := newLauncher(b)
	socket := fmt.Sprintf("@weir-bench-%d", os.Getpid())
	spec := serveSpec(socket, "bench")
	running := make(chan Status, 1)
	process, err := NewProcess(launcher, ProcessConfig{
		Name: "bench", NewSpec: always(spec), Probe: probeHello(socket), StartTimeout: 10 * time.Second,
		// No two failures fall into this window: each restart is a first one.
		Policy: Policy{Budget: 1, Window: time.Nanosecond, Base: time.Second, Max: time.Second},
		Log:    slog.New(slog.DiscardHandler),
		Watch: func(s Status) {
			if s.State == Running {
				running <- s
			}
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- process.Run(ctx) }()
	status := <-running
	var ours, floor []time.Duration
	for b.Loop() {
		began := time.Now()
		if err := syscall.Kill(status.PID, syscall.SIGKILL); err != nil {
			b.Fatal(err)
		}
		status = <-running
		ours = append(ours, time.Since(began))
		b.StopTimer()
		floor = append(floor, bareStart(b, socket+"-bare"))
		b.StartTimer()
	}
	cancel()
	if err := <-ended; err != nil {
		b.Error(err)
	}
	slices.Sort(ours)
	slices.Sort(floor)
	b.ReportMetric(float64(ours[len(ours)/2].Microseconds())/1000, "ms-median")
	b.ReportMetric(float64(ours[len(ours)*99/100].Microseconds())/1000, "ms-p99")
	b.ReportMetric(float64(ours[len(ours)/2])/float64(floor[len(floor)/2]), "x-bare-start")
}

// bareStart starts the server without supervision and waits for its answer.
func bareStart(b *testing.B, socket string) time.Duration {
	cmd := exec.Command(self)
	cmd.Env = serveSpec(socket, "bench").Env
	began := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	for probeHello(socket)(b.Context()) != nil {
	}
	took := time.Since(began)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return took
}

// BenchmarkRespawn measures from kill -9 until the pid of the next process is known. It reports the ratio to the floor:
// fork and exec of the same file in the same state of this process, including the wait.
func BenchmarkRespawn(b *testing.B) {
	for _, bench := range []struct {
		name   string
		limits Limits
		change func(*Launcher)
	}{
		{"plain", Limits{}, func(*Launcher) {}},
		{"rlimits", Limits{OpenFiles: 1000}, func(*Launcher) {}},
		{"no cgroups", Limits{}, withoutCgroups},
	} {
		b.Run(bench.name, func(b *testing.B) { benchRespawn(b, bench.limits, bench.change) })
	}
}

func benchRespawn(b *testing.B, limits Limits, change func(*Launcher)) {
	launcher, stop := runChanged(b, change)
	spec := Spec{Name: "bench", Argv: []string{"/bin/sleep", "1000"}, Limits: limits, Lines: func(string, []byte) {}}
	running := make(chan Status, 1)
	process, err := NewProcess(launcher, ProcessConfig{
		Name: "bench", NewSpec: always(spec), StartTimeout: 10 * time.Second,
		Policy: Policy{Budget: 1, Window: time.Nanosecond, Base: time.Second, Max: time.Second},
		Log:    slog.New(slog.DiscardHandler),
		Watch: func(s Status) {
			if s.State == Running {
				running <- s
			}
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- process.Run(ctx) }()
	status := <-running
	var ours, floor []time.Duration
	for b.Loop() {
		began := time.Now()
		if err := syscall.Kill(status.PID, syscall.SIGKILL); err != nil {
			b.Fatal(err)
		}
		status = <-running
		ours = append(ours, time.Since(began))
		b.StopTimer()
		floor = append(floor, bareFork(b, spec.Argv))
		b.StartTimer()
	}
	cancel()
	if err := errors.Join(<-ended, stop()); err != nil {
		b.Error(err)
	}
	slices.Sort(ours)
	slices.Sort(floor)
	b.ReportMetric(float64(ours[len(ours)/2].Microseconds())/1000, "ms-p50")
	b.ReportMetric(float64(ours[len(ours)*99/100].Microseconds())/1000, "ms-p99")
	b.ReportMetric(float64(floor[len(floor)/2].Microseconds())/1000, "bare-fork-ms-p50")
}

// BenchmarkRespawnAll kills fifty children at once and measures until fifty others run. supervisord needs 180 ms.
func BenchmarkRespawnAll(b *testing.B) {
	const processes = 50
	launcher, stop := runLauncher(b)
	running := make(chan Status, processes)
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, processes)
	for i := range processes {
		spec := Spec{Name: fmt.Sprint(i), Argv: []string{"/bin/sleep", "1000"}, Lines: func(string, []byte) {}}
		process, err := NewProcess(launcher, ProcessConfig{
			Name: spec.Name, NewSpec: always(spec), StartTimeout: 10 * time.Second,
			Policy: Policy{Budget: 1, Window: time.Nanosecond, Base: time.Second, Max: time.Second},
			Log:    slog.New(slog.DiscardHandler),
			Watch: func(s Status) {
				if s.State == Running {
					running <- s
				}
			},
		})
		if err != nil {
			b.Fatal(err)
		}
		go func() { ended <- process.Run(ctx) }()
	}
	await := func() (all []Status) {
		for range processes {
			all = append(all, <-running)
		}
		return all
	}
	all := await()
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		for _, s := range all {
			if err := syscall.Kill(s.PID, syscall.SIGKILL); err != nil {
				b.Fatal(err)
			}
		}
		all = await()
		took = append(took, time.Since(began))
	}
	cancel()
	for range processes {
		if err := <-ended; err != nil {
			b.Error(err)
		}
	}
	if err := stop(); err != nil {
		b.Error(err)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-p50")
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "ms-longest")
	b.ReportMetric(180, "supervisord-ms")
}

// bareFork starts a process without supervision and returns the time until its pid is known.
func bareFork(b *testing.B, argv []string) time.Duration {
	cmd := exec.Command(argv[0], argv[1:]...)
	began := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	took := time.Since(began)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return took
}
