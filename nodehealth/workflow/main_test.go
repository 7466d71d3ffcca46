package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/netguard"
	"github.com/weirkeeper/weirkeeper/nodehealth"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

const (
	// childArg makes the test binary a workflow; the next argument is its behavior.
	childArg = "workflow-of-a-test"
	deadline = await.Patience
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "keep" {
		if supervise.Keep(os.Stdin, os.Stdout) != nil {
			syscall.Exit(1)
		}
		syscall.Exit(0)
	}
	if len(os.Args) > 2 && os.Args[1] == childArg {
		syscall.Exit(child(os.Args[2], os.Args[3:])) // os.Exit waits a second under the race detector
	}
	goleak.VerifyTestMain(m)
}

func child(what string, args []string) int {
	switch what {
	case "keep": // print the input
		wireInput, err := io.ReadAll(os.Stdin)
		if err == nil {
			err = os.WriteFile(args[0], wireInput, 0o600)
		}
		return say(nodehealth.DecisionOK, fmt.Sprint(err))
	case "args":
		return say(nodehealth.DecisionOK, strings.Join(args, "|"))
	case "env":
		return say(nodehealth.DecisionSkip, strings.Join(os.Environ(), "|"))
	case "text":
		fmt.Println("all done\nand more")
	case "fail":
		fmt.Fprintln(os.Stderr, "no \x1b[31mluck")
		return 3
	case "print":
		fmt.Print(args[0])
		return len(args) - 1
	case "flood":
		part := strings.Repeat(args[0], 1<<20)
		for range 200 {
			fmt.Print(part)
			fmt.Fprint(os.Stderr, part)
		}
	case "hang", "leave": // with a child that holds a lock, in a session of its own if there is one more argument
		c := exec.Command("/proc/self/exe", childArg, "hold", args[0])
		c.Stdout, c.SysProcAttr = os.Stdout, &syscall.SysProcAttr{Setsid: len(args) > 1}
		if err := c.Start(); err != nil {
			return say(nodehealth.DecisionFailed, err.Error())
		}
		if what == "leave" {
			for lockable(args[0]) {
				<-time.After(time.Millisecond)
			}
			return say(nodehealth.DecisionOK, "left one behind")
		}
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		select {}
	case "parent": // runs a workflow itself
		argv := append([]string{"/proc/self/exe", childArg, "hang"}, args...)
		a := judge.Action{Params: judge.Params{Kind: kindCommand, Argv: argv}}
		_, err := New(commands()).Run(context.Background(), a, nodehealth.Input{})
		return say(nodehealth.DecisionFailed, fmt.Sprint(err))
	case "hold":
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		f, err := os.OpenFile(args[0], os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil || syscall.Flock(int(f.Fd()), syscall.LOCK_EX) != nil {
			return 1
		}
		select {}
	}
	return 0
}

func say(d nodehealth.Decision, reason string) int {
	data, err := json.Marshal(map[string]any{"result": d, "reason": reason, "more": 1})
	if err != nil {
		return 9
	}
	os.Stdout.Write(data)
	return 0
}

// lockable reports whether no process holds the file's lock.
func lockable(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return true
	}
	defer f.Close()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

func commandOf(t *testing.T, args ...string) judge.Action {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return judge.Action{Name: api.ActionWorkflow, Params: judge.Params{Kind: kindCommand, Argv: append([]string{self, childArg}, args...)}}
}

// commands returns the configuration of a Runner that runs commands.
func commands() Config {
	return Config{Keeper: []string{"/proc/self/exe", "keep"}, Log: slog.New(slog.DiscardHandler)}
}

func loopback() Config {
	return Config{Allowed: netguard.Networks{netip.MustParsePrefix("127.0.0.0/8")}}
}

func someInput() nodehealth.Input {
	return nodehealth.Input{Cluster: "prod", Pool: "web", Node: "node-1", PhysicalID: "i-0a", Zone: "z1", Attempt: "node-1.7",
		Reason: "AGENT_HEARTBEAT: silent", Evidence: []string{"AGENT_HEARTBEAT fail: silent", "NODE_STATUS_POLLING ok"}}
}

func run(t *testing.T, r *Runner, a judge.Action) nodehealth.Result {
	t.Helper()
	if err := r.Check(a); err != nil {
		t.Errorf("Check = %v", err)
	}
	got, err := r.Run(t.Context(), a, someInput())
	if err != nil {
		t.Errorf("Run = %v", err)
	}
	return got
}

func wantResult(t *testing.T, got nodehealth.Result, d nodehealth.Decision, says string) {
	t.Helper()
	if got.Decision != d || !strings.Contains(got.Reason, says) || len(got.Reason) > api.MaxWhy {
		t.Errorf("result %s: %q, want %s: ...%s...", got.Decision, got.Reason, d, says)
	}
}
