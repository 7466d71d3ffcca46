package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/sigproto"
)

// asProgram is the variable with which the test binary runs as the program.
const asProgram = "INSTANCE_COUNT_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestProgram(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	name := fmt.Sprintf("InstanceCount_%d", os.Getpid())
	program := exec.CommandContext(ctx, os.Args[0], "examples", name, "web")
	program.Env = append(os.Environ(), asProgram+"=1")
	program.Stderr = os.Stderr
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}

	client := sigproto.NewClient(sigproto.ClientConfig{
		Address: sigproto.Address("examples", name, "web"),
		Hello:   sigproto.Hello{Parameters: map[string]any{"headroom": 1.5}, Cluster: "local", Pool: "default"},
	})
	defer client.Close()
	times := []int64{1700000000, 1700000060}
	got, err := client.Evaluate(ctx, sigproto.Evaluation{Timestamp: 1700000120, Series: []sigproto.Series{
		{Name: "cpus_expected", Times: times, Values: []float64{9, 4}},
		{Name: "mem_expected", Times: times, Values: []float64{0, 2048}},
		{Name: "disk_expected"},
	}})
	if err != nil {
		t.Error(err)
	}
	want := sigproto.Response{
		Resources:   sigproto.Resources{CPUs: new(6.0), Mem: new(3072.0)},
		Explanation: "cpus 6: 1.5 * last(cpus_expected) = 4; mem 3072: 1.5 * last(mem_expected) = 2048; disk unknown",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}

	if err := program.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := program.Wait(); err != nil {
		t.Errorf("after SIGTERM the program ended with %v", err)
	}
}
