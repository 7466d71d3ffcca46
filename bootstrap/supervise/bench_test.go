package supervise

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"
)

// BenchmarkRestart measures from kill -9 to the answer of the next process, and
// its ratio to the floor: the same executable started bare, until it answers.
func BenchmarkRestart(b *testing.B) {
	launcher := newLauncher(b)
	socket := fmt.Sprintf("@weir-bench-%d", os.Getpid())
	spec := serveSpec(socket, "bench")
	running := make(chan Status, 1)
	process, err := NewProcess(launcher, ProcessConfig{
		Name: "bench", NewSpec: always(spec), Probe: probeHello(socket), StartTimeout: 10 * time.Second,
		// A window in which no two failures fall: each restart is a first one.
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

// bareStart starts the server without supervision, and waits for its answer.
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
