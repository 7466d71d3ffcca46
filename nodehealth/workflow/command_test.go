package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/nodehealth"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

func TestCommandGetsItsInput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "told")
	a := commandOf(t, "keep", file)
	a.Params.Input = map[string]string{"server": "{{ node.physicalid }}", "what": "{{attempt}} of {{ pool.name }}"}
	wantResult(t, run(t, New(commands()), a), nodehealth.DecisionOK, "nil")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	at, err := time.Parse(time.RFC3339, got["deadline"].(string))
	if err != nil || time.Until(at) < time.Hour {
		t.Errorf("deadline %v: %v", at, err)
	}
	delete(got, "deadline")
	want := map[string]any{
		"version": 1.0, "cluster": "prod", "pool": "web", "node": "node-1", "physical_id": "i-0a", "zone": "z1", "attempt": "node-1.7",
		"reason": "AGENT_HEARTBEAT: silent", "evidence": []any{"AGENT_HEARTBEAT fail: silent", "NODE_STATUS_POLLING ok"},
		"input": map[string]any{"server": "i-0a", "what": "node-1.7 of web"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

func TestCommandResponses(t *testing.T) {
	t.Setenv("WEIR_TEST_SECRET", "not for commands")
	tests := []struct {
		name string
		args []string
		want nodehealth.Decision
		says string
	}{
		{"a text", []string{"text"}, nodehealth.DecisionOK, "all done"},
		{"nothing", []string{"print", ""}, nodehealth.DecisionOK, ""},
		{"a status", []string{"fail"}, nodehealth.DecisionFailed, "exit status 3: no  [31mluck"},
		{"arguments", []string{"args", "{{ node.id }}", "a b; $HOME", "-x={{reason}}"}, nodehealth.DecisionOK, "node-1|a b; $HOME|-x=AGENT_HEARTBEAT: silent"},
		{"escalate", []string{"print", `{"result": "escalate", "reason": "not mine"}`, "1"}, nodehealth.DecisionEscalate, "not mine"},
		{"ok beside a status", []string{"print", `{"result": "ok"}`, "1"}, nodehealth.DecisionFailed, "exit status 1"},
		{"bad JSON", []string{"print", `{"result": ok}`}, nodehealth.DecisionFailed, "decode the response: invalid character"},
		{"unknown keys, and a reason of another type", []string{"print", `{"result": "ok", "reason": 7, "took": {}}`}, nodehealth.DecisionOK, ""},
		{"no result", []string{"print", `{"results": "ok"}`}, nodehealth.DecisionFailed, `result is "": want ok, failed, escalate or skip`},
		{"two answers", []string{"print", `{"result": "ok"} {}`}, nodehealth.DecisionFailed, "decode the response"},
		{"bad JSON beside a status", []string{"print", `{"result"`, "1"}, nodehealth.DecisionFailed, "exit status 1"},
		{"200 MB of text", []string{"flood", "x"}, nodehealth.DecisionOK, "xxx"},
		{"200 MB of JSON", []string{"flood", "{"}, nodehealth.DecisionFailed, "longer than 65536 bytes"},
	}
	r := New(commands())
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { wantResult(t, run(t, r, commandOf(t, test.args...)), test.want, test.says) })
	}
	if got := run(t, r, commandOf(t, "env")); got.Decision != nodehealth.DecisionSkip || strings.Contains(got.Reason, "SECRET") || !strings.Contains(got.Reason, "PATH=") {
		t.Errorf("its environment: %+v", got)
	}
}

// sessions are the sessions of a command's child: the command's, or its own.
var sessions = []struct {
	name string
	args []string
}{{"same session", nil}, {"own session", []string{"setsid"}}}

// A command that hangs is ended at the deadline, with its children.
func TestCommandThatHangs(t *testing.T) {
	for _, s := range sessions {
		t.Run(s.name, func(t *testing.T) { testCommandThatHangs(t, s.args) })
	}
}

func testCommandThatHangs(t *testing.T, session []string) {
	lock := filepath.Join(t.TempDir(), "lock")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	type end struct {
		result nodehealth.Result
		err    error
	}
	ended := make(chan end, 1)
	go func() {
		got, err := New(commands()).Run(ctx, commandOf(t, append([]string{"hang", lock}, session...)...), someInput())
		ended <- end{got, err}
	}()
	await.True(t, "its child runs", func() bool { return !lockable(lock) })
	cancel(context.DeadlineExceeded)
	select {
	case got := <-ended:
		wantResult(t, got.result, nodehealth.DecisionFailed, "did not end before its deadline")
		if got.err != nil {
			t.Error(got.err)
		}
	case <-time.After(deadline):
		t.Fatal("Run does not return")
	}
	await.True(t, "its child is ended", func() bool { return lockable(lock) })
}

func TestCommandAtItsDeadline(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	begin := time.Now()
	got, err := New(commands()).Run(ctx, commandOf(t, "hang", filepath.Join(t.TempDir(), "lock")), someInput())
	if err != nil || time.Since(begin) > deadline/2 {
		t.Errorf("Run = %v after %v", err, time.Since(begin))
	}
	wantResult(t, got, nodehealth.DecisionFailed, "did not end before its deadline")
}

func TestCommandIsCancelled(t *testing.T) {
	lock := filepath.Join(t.TempDir(), "lock")
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("the lease is lost")
	done := make(chan error, 1)
	go func() {
		_, err := New(commands()).Run(ctx, commandOf(t, "hang", lock), someInput())
		done <- err
	}()
	await.True(t, "its child runs", func() bool { return !lockable(lock) })
	cancel(enough)
	if err := <-done; !errors.Is(err, enough) || !strings.Contains(err.Error(), "run command workflow for node node-1") {
		t.Errorf("Run = %v", err)
	}
	await.True(t, "its child is ended", func() bool { return lockable(lock) })
}

// Processes that a command left behind have ended when its result is returned.
func TestCommandThatLeavesSomethingBehind(t *testing.T) {
	for _, s := range sessions {
		t.Run(s.name, func(t *testing.T) {
			lock := filepath.Join(t.TempDir(), "lock")
			a := commandOf(t, append([]string{"leave", lock}, s.args...)...)
			wantResult(t, run(t, New(commands()), a), nodehealth.DecisionOK, "left one behind")
			if !lockable(lock) {
				t.Error("the child of the command runs after the end of the command")
			}
		})
	}
}

// A command does not outlive the process that runs it, however that process ends.
func TestCommandWhenWeDie(t *testing.T) {
	for _, s := range sessions {
		t.Run(s.name, func(t *testing.T) {
			lock := filepath.Join(t.TempDir(), "lock")
			parent := exec.Command("/proc/self/exe", append([]string{childArg, "parent", lock}, s.args...)...)
			if err := parent.Start(); err != nil {
				t.Fatal(err)
			}
			await.True(t, "the command runs", func() bool { return !lockable(lock) })
			if err := parent.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = parent.Wait() // it was killed
			await.True(t, "the command is ended", func() bool { return lockable(lock) })
		})
	}
}

func TestCommandThatCannotRun(t *testing.T) {
	a := commandOf(t)
	a.Params.Argv = []string{"/does/not/exist"}
	if _, err := New(commands()).Run(t.Context(), a, someInput()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Run = %v", err)
	}
	large := someInput()
	large.Reason = strings.Repeat("x", maxPayload)
	if _, err := New(commands()).Run(t.Context(), commandOf(t, "text"), large); err == nil || !strings.Contains(err.Error(), "bytes, limit ") {
		t.Errorf("Run = %v", err)
	}
}

func TestCheckCommand(t *testing.T) {
	for _, test := range []struct {
		name       string
		params     judge.Params
		path, says string
	}{
		{"no argv", judge.Params{Kind: kindCommand}, "params.argv", "is missing"},
		{"relative", judge.Params{Kind: kindCommand, Argv: []string{"./heal"}}, "params.argv[0]", "absolute path"},
		{"not there", judge.Params{Kind: kindCommand, Argv: []string{"no-such-program-here"}}, "params.argv[0]", "not found"},
		{"unknown name", judge.Params{Kind: kindCommand, Argv: []string{"sh", "{{ node.ip }}"}}, "params.argv[1]", "unknown name {{ node.ip }}: want one of node.id"},
		{"half a template", judge.Params{Kind: kindCommand, Argv: []string{"sh"}, Input: map[string]string{"a": "{{ node.id"}}, "params.input.a", "a {{ without a }}"},
		{"no kind", judge.Params{Kind: "shell"}, "params.kind", "want command, webhook, nats"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := New(Config{}).Check(judge.Action{Name: api.ActionWorkflow, Params: test.params})
			p, ok := errors.AsType[*judge.Problem](err)
			if !ok || p.Path != test.path || !strings.Contains(p.What, test.says) {
				t.Errorf("Check = %v, want %s ...%s...", err, test.path, test.says)
			}
		})
	}
}

func FuzzRender(f *testing.F) {
	f.Add("{{ node.id }} {{attempt}}", "{{ reason }}")
	f.Add("}} {{", "")
	f.Fuzz(func(t *testing.T, text, node string) {
		got, err := render(text, nodehealth.Input{Node: node})
		if err != nil {
			return
		}
		if !strings.Contains(text, "{{") && got != text || len(got) > len(text)*(len(node)+1) {
			t.Errorf("render(%q) with %q = %q", text, node, got)
		}
	})
}

func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{`{"result": "ok", "reason": "x"}`, `{"result": 1}`, "done\n", "{", "\x00"} {
		f.Add([]byte(seed), false, "")
	}
	f.Add([]byte(`{"result": "skip"}`), true, "status 500")
	f.Fuzz(func(t *testing.T, text []byte, cut bool, failure string) {
		got := response{text: text, cut: cut, failure: failure}.result()
		switch got.Decision {
		case nodehealth.DecisionOK:
			if failure != "" {
				t.Errorf("ok beside %q", failure)
			}
		case nodehealth.DecisionFailed, nodehealth.DecisionEscalate, nodehealth.DecisionSkip:
		default:
			t.Errorf("decision %q", got.Decision)
		}
		if len(got.Reason) > 2*api.MaxWhy || strings.ContainsFunc(got.Reason, func(r rune) bool { return r < ' ' }) {
			t.Errorf("reason %q", got.Reason)
		}
	})
}
