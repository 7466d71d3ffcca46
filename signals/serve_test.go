package signals

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// asMain makes the test binary a signal's program.
const asMain = "SIGNALS_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		Main(fixed(4))
		return
	}
	goleak.VerifyTestMain(m)
}

// signalFunc is a Signal made of its method.
type signalFunc func(context.Context, Input) (resource.Request, error)

func (f signalFunc) Value(ctx context.Context, in Input) (resource.Request, error) { return f(ctx, in) }

func fixed(cpus float64) Signal {
	return signalFunc(func(context.Context, Input) (resource.Request, error) {
		return resource.Request{}.With(resource.CPUs, cpus), nil
	})
}

// serve runs a signal until the test ends, and returns its address.
func serve(t *testing.T, s Signal) (address string) {
	t.Helper()
	config := ServeConfig{Namespace: "signals", Name: fmt.Sprintf("%s_%d", strings.ReplaceAll(t.Name(), "/", "_"), os.Getpid()), App: "web"}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, s, config) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve = %v", err)
		}
	})
	return sigproto.Address(config.Namespace, config.Name, config.App)
}

func client(t *testing.T, address string) *sigproto.Client {
	c := sigproto.NewClient(sigproto.ClientConfig{
		Address: address,
		Hello:   sigproto.Hello{Parameters: map[string]any{"a": 1.0}, Cluster: "c", Pool: "p", Setpoint: 0.7},
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestServe(t *testing.T) {
	inputs := make(chan Input, 1)
	address := serve(t, signalFunc(func(_ context.Context, in Input) (resource.Request, error) {
		inputs <- in
		return resource.Request{}.With(resource.CPUs, 4).With(resource.GPUs, 0), nil
	}))
	c := client(t, address)
	for range 3 {
		got, err := c.Evaluate(soon(t), sigproto.Evaluation{
			Timestamp: 1700000120,
			Series: []sigproto.Series{
				{Name: "m|app=web", Times: []int64{1700000000}, Values: []float64{1.5}},
				{Name: "m|app=web#count", Times: []int64{1700000000}, Values: []float64{4}},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		want := sigproto.Response{Resources: sigproto.Resources{CPUs: new(4.0), GPUs: new(0.0)}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("response (-want +got):\n%s", diff)
		}
		wantIn := Input{
			Now: time.Unix(1700000120, 0).UTC(), Cluster: "c", Pool: "p", App: "web", Setpoint: 0.7, Parameters: Parameters{"a": 1.0},
			Metrics: map[string]Series{
				"m|app=web":       {Times: []int64{1700000000}, Values: []float64{1.5}, Counts: []float64{4}},
				"m|app=web#count": {Times: []int64{1700000000}, Values: []float64{4}},
			},
		}
		if diff := cmp.Diff(wantIn, <-inputs); diff != "" {
			t.Errorf("input (-want +got):\n%s", diff)
		}
	}
}

// A failed signal never counts as one without an opinion.
func TestServeRefuses(t *testing.T) {
	for name, s := range map[string]signalFunc{
		"error":    func(context.Context, Input) (resource.Request, error) { return resource.Request{}, errors.New("no") },
		"panic":    func(_ context.Context, in Input) (resource.Request, error) { panic(in.App) },
		"negative": func(context.Context, Input) (resource.Request, error) { return resource.Of(resource.Vector{-1}), nil },
		"NaN": func(context.Context, Input) (resource.Request, error) {
			return resource.Of(resource.Vector{math.NaN()}), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := client(t, serve(t, s))
			for range 2 {
				if _, err := c.Evaluate(soon(t), sigproto.Evaluation{}); !errors.Is(err, sigproto.ErrRefused) {
					t.Errorf("Evaluate = %v, want ErrRefused", err)
				}
			}
		})
	}
}

func TestServeAtOnce(t *testing.T) {
	both := make(chan struct{}, 2)
	release := make(chan struct{})
	address := serve(t, signalFunc(func(ctx context.Context, in Input) (resource.Request, error) {
		both <- struct{}{}
		select {
		case <-release:
			return resource.Request{}, nil
		case <-ctx.Done():
			return resource.Request{}, ctx.Err()
		}
	}))
	results := make(chan error, 2)
	for range 2 {
		c := client(t, address)
		ctx := soon(t)
		go func() {
			_, err := c.Evaluate(ctx, sigproto.Evaluation{})
			results <- err
		}()
	}
	<-both
	<-both // the second request arrives while the first is in progress
	close(release)
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

func TestHangUpEndsValue(t *testing.T) {
	computing, over := make(chan struct{}), make(chan error, 1)
	address := serve(t, signalFunc(func(ctx context.Context, _ Input) (resource.Request, error) {
		close(computing)
		<-ctx.Done()
		over <- context.Cause(ctx)
		return resource.Request{}, ctx.Err()
	}))
	ctx, cancel := context.WithCancel(soon(t))
	go func() { <-computing; cancel() }()
	if _, err := client(t, address).Evaluate(ctx, sigproto.Evaluation{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Evaluate = %v, want context.Canceled", err)
	}
	if err := <-over; err == nil || !strings.Contains(err.Error(), "has closed the connection") {
		t.Errorf("cause = %v, want the hang-up", err)
	}
}

// After invalid input from any process, the next autoscaler is served.
func TestInvalidInputDoesNotEndService(t *testing.T) {
	address := serve(t, fixed(1))
	for name, sent := range map[string]string{"nothing": "", "garbage": "GET / HTTP/1.1\r\n\r\n", "half a hello": `{"a`, "hello and half a length": "{}\x00\x00"} {
		conn := dial(t, address)
		if _, err := conn.Write([]byte(sent)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		conn.Close()
	}
	if _, err := client(t, address).Evaluate(soon(t), sigproto.Evaluation{}); err != nil {
		t.Error(err)
	}
}

// crowdedListener has no descriptor for its first connections.
type crowdedListener struct {
	net.Listener
	times int
}

func (l *crowdedListener) Accept() (net.Conn, error) {
	if l.times--; l.times >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "unix", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

// A signal that runs out of descriptors serves again when some are free.
func TestCrowded(t *testing.T) {
	config := ServeConfig{Namespace: "signals", Name: fmt.Sprintf("crowded_%d", os.Getpid()), App: "web"}
	listener, err := sigproto.Listen(config.address())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- ServeListener(ctx, fixed(1), &crowdedListener{Listener: listener, times: 2}, config) }()
	if _, err := client(t, config.address()).Evaluate(soon(t), sigproto.Evaluation{}); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ServeListener = %v", err)
	}
}

// dial waits for the listener.
func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	if _, err := client(t, address).Evaluate(soon(t), sigproto.Evaluation{}); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("unix", "@"+address)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestServeConfig(t *testing.T) {
	err := Serve(soon(t), fixed(1), ServeConfig{Name: "n"})
	if err == nil || !strings.Contains(err.Error(), "namespace") || !strings.Contains(err.Error(), "app") {
		t.Errorf("Serve = %v, want errors for namespace and app", err)
	}
	err = Serve(soon(t), fixed(1), ServeConfig{Namespace: strings.Repeat("n", 100), Name: "n", App: "a"})
	if err == nil || !strings.Contains(err.Error(), "at most 107") {
		t.Errorf("Serve = %v, want an error for the address", err)
	}
}

func TestMainProcess(t *testing.T) {
	program := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(soon(t), os.Args[0], args...)
		cmd.Env = append(os.Environ(), asMain+"=1")
		return cmd
	}
	t.Run("usage", func(t *testing.T) {
		for _, args := range [][]string{{}, {"a", "b"}, {"a", "b", "c", "d"}, {"a", "b", ""}, {"a", "b", strings.Repeat("c", 97)}} {
			cmd := program(args...)
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != 2 || len(out) == 0 {
				t.Errorf("arguments %q: exit code %d, output %q; want 2 and a message", args, code, out)
			}
		}
	})
	t.Run("address in use", func(t *testing.T) {
		name := fmt.Sprintf("taken_%d", os.Getpid())
		l, err := sigproto.Listen(sigproto.Address("signals", name, "web"))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		cmd := program("signals", name, "web")
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(string(out), "address already in use") {
			t.Errorf("exit code %d, output %q; want 1 and the reason", code, out)
		}
	})
	for _, end := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(end.String(), func(t *testing.T) {
			name := fmt.Sprintf("process_%d", os.Getpid())
			cmd := program("signals", name, "web")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			c := client(t, sigproto.Address("signals", name, "web"))
			got, err := c.Evaluate(soon(t), sigproto.Evaluation{})
			if err != nil || got.Resources.CPUs == nil || *got.Resources.CPUs != 4 {
				t.Errorf("Evaluate = %+v, %v; want 4 cpus", got, err)
			}
			if err := cmd.Process.Signal(end); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil { // with an open connection
				t.Errorf("the process ended with %v", err)
			}
		})
	}
}
