package main

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// BenchmarkUp prints the times of the main job, each from a real "weir up":
//
//	ready_s            start to ready                            (figure: 3)
//	nudge_ms           "app set" of 20 instances to first nudge  (figure: 2000)
//	asked_s            "app set" of 20 instances to machines requested  (figure: one tick, 2)
//	running_s          "app set" of 20 instances to 20 running
//	back_to_2_s        "app set" of 2 to a pool of 2 machines
//	signal_kill_ms     kill -9 of a signal to the next answer    (figure: 100; supervisord 1000 to 2000)
//	machine_kill_s     kill -9 of a machine to its instances elsewhere (figure: droplet_lost 5 + 2)
//	left_after_kill_s  kill -9 of weir up to nothing left        (figure: 2)
func BenchmarkUp(b *testing.B) {
	for b.Loop() {
		data := b.TempDir()
		began := time.Now()
		u := startUp(b, data)
		b.ReportMetric(time.Since(began).Seconds(), "ready_s")
		measureScaling(b, u)
		measureSignalKill(b, u)
		measureMachineKill(b, u)
		began = time.Now()
		if err := u.cmd.Process.Kill(); err != nil {
			b.Fatal(err)
		}
		u.expectNothingLeft(b)
		b.ReportMetric(time.Since(began).Seconds(), "left_after_kill_s")
	}
	b.ReportMetric(0, "ns/op")
}

func measureScaling(b *testing.B, u *upProcess) {
	b.Helper()
	u.weir(b, "app", "set", "web", "--instances", "2", "--cpus", "0.2", "--mem", "64", "--command", "sleep 1000 & sleep 1000")
	u.waitRunning(b, "web", 2)
	nudges := bustest.SubscribeSync(b, joinAs(b, u.data, roles.User{Role: roles.Harmonizer}).Conn(), message.SubjectStart)
	began := time.Now()
	u.weir(b, "app", "set", "web", "--instances", "20")
	if _, err := nudges.NextMsg(patience); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(time.Since(began).Microseconds())/1e3, "nudge_ms")
	u.pool(b, "machines asked for", func(s api.PoolStatus) error {
		if len(s.LastTick.Actions) == 0 {
			return errors.New("nothing was asked")
		}
		return nil
	})
	b.ReportMetric(time.Since(began).Seconds(), "asked_s")
	u.waitRunning(b, "web", 20)
	b.ReportMetric(time.Since(began).Seconds(), "running_s")
	u.pool(b, "a pool of 5", sized(5))
	began = time.Now()
	u.weir(b, "app", "set", "web", "--instances", "2")
	u.pool(b, "a pool of 2", sized(2))
	b.ReportMetric(time.Since(began).Seconds(), "back_to_2_s")
}

// measureSignalKill sends requests from the kill on until an answer comes.
func measureSignalKill(b *testing.B, u *upProcess) {
	b.Helper()
	before := u.runningSignal(b, "apps")
	client := sigproto.NewClient(sigproto.ClientConfig{
		Address: before.Address, Hello: sigproto.Hello{Cluster: "local", Pool: "default"},
		CheckPeer: func(pid int) error {
			if group, err := unix.Getpgid(pid); err != nil || group == before.PID {
				return errors.New("still the old process")
			}
			return nil
		},
	})
	defer client.Close()
	began := time.Now()
	if err := syscall.Kill(before.PID, syscall.SIGKILL); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		_, err := client.Evaluate(ctx, sigproto.Evaluation{Timestamp: time.Now().Unix()})
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(time.Since(began).Microseconds())/1e3, "signal_kill_ms")
}

func measureMachineKill(b *testing.B, u *upProcess) {
	b.Helper()
	u.waitRunning(b, "web", 2)
	s, err := runJSON[api.HarmonizerStatus](u, "app", "status", "web")
	if err != nil {
		b.Fatal(err)
	}
	victim := s.App.Indices[0].Instances[0].Node
	began := time.Now()
	if err := syscall.Kill(agentPID(b, victim), syscall.SIGKILL); err != nil {
		b.Fatal(err)
	}
	eventually(b, "web elsewhere", func() error { return runsElsewhere(u, victim, 2) })
	b.ReportMetric(time.Since(began).Seconds(), "machine_kill_s")
}
