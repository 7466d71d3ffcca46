package agent

import (
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/local/internal/call"
	"github.com/weirkeeper/weirkeeper/resource"
)

func TestTail(t *testing.T) {
	var out tail
	if got := out.last(0, 100); len(got) != 0 {
		t.Errorf("last of nothing = %q", got)
	}
	for range 3 * tailBytes / 100 {
		out.add(strings.Repeat("x", 99))
	}
	out.add("last")
	if out.bytes > tailBytes || len(out.lines) < tailBytes/100-2 {
		t.Errorf("%d lines of %d bytes are kept, want at most %d bytes", len(out.lines), out.bytes, tailBytes)
	}
	if got := out.last(1, 100); len(got) != 1 || got[0] != "last" {
		t.Errorf("last(1) = %q", got)
	}
	if got := out.last(0, 250); len(got) != 3 {
		t.Errorf("%d lines fit into 250 bytes, want 3", len(got))
	}
	out.add(strings.Repeat("y", 2*tailBytes))
	if got := out.last(0, 2*tailBytes); len(got) != 1 || len(got[0]) != tailBytes-1 {
		t.Errorf("after a line that is too long: %d lines", len(got))
	}
}

func TestLogsFitIntoAMessage(t *testing.T) {
	m := newMachine(Config{ID: "n", Resources: resource.Vector{1000}}, "boot")
	now := time.Unix(1000, 0)
	for i := range 100 {
		r := StartRequest{App: "web", Index: i, Instance: "x" + strings.Repeat("y", i), Command: "run"}
		c, err := m.admit(now, r)
		if err != nil {
			t.Fatal(err)
		}
		for range tailBytes / 2 {
			c.output.add("\x01") // the worst case: six bytes in JSON
		}
	}
	reply, err := m.logs(LogsRequest{App: "web"})
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(reply)
	if err != nil || len(data) > 1<<20 {
		t.Errorf("the reply has %d bytes, %v", len(data), err)
	}
	if len(reply.Copies) != 100 || len(reply.Copies[99].Lines) == 0 {
		t.Errorf("%d copies, the newest with %d lines", len(reply.Copies), len(reply.Copies[99].Lines))
	}
}

func TestEndedAreBounded(t *testing.T) {
	m := newMachine(Config{ID: "n"}, "boot")
	for i := range 3 * maxEnded {
		r := StartRequest{App: "web", Index: i, Instance: "x" + strings.Repeat("y", i%100) + strings.Repeat("z", i/100), Command: "run"}
		if _, err := m.admit(time.Unix(1, 0), r); err != nil {
			t.Fatal(err)
		}
		if _, ok := m.exited(time.Unix(2, 0), r.Instance, outcome{}, false); !ok {
			t.Fatalf("exit of %s is not published", r.Instance)
		}
	}
	if len(m.ended) != maxEnded || m.ended[maxEnded-1].Index != 3*maxEnded-1 {
		t.Errorf("%d ended copies are kept", len(m.ended))
	}
	if _, ok := m.exited(time.Unix(2, 0), "nobody", outcome{}, false); ok {
		t.Error("the exit of an unknown copy is published")
	}
}

// A failed index keeps its last output while other copies crash repeatedly.
func TestLastOfEachIndexIsKept(t *testing.T) {
	m := newMachine(Config{ID: "n"}, "boot")
	end := func(app string, index, n int) {
		r := StartRequest{App: app, Index: index, Instance: fmt.Sprintf("%s-%d-%d", app, index, n), Command: "run"}
		c, err := m.admit(time.Unix(1, 0), r)
		if err != nil {
			t.Fatal(err)
		}
		c.output.add(fmt.Sprint("word ", n))
		m.exited(time.Unix(2, 0), r.Instance, outcome{text: "exit status 1"}, false)
	}
	for n := range 3 {
		end("web", 0, n)
		end("web", 1, n)
	}
	for n := range 2 * maxEnded {
		end("db", 0, n)
	}
	for index := range 2 {
		reply, err := m.logs(LogsRequest{App: "web", Index: &index})
		if err != nil {
			t.Fatal(err)
		}
		want := []CopyLog{{
			Instance: fmt.Sprintf("web-%d-2", index), Version: "", Index: index, Ended: true,
			Lines: []string{"word 2", "[ended: exit status 1]"},
		}}
		if diff := cmp.Diff(want, reply.Copies); diff != "" {
			t.Errorf("logs of web/%d, -want +got:\n%s", index, diff)
		}
	}
	if len(m.ended) != maxEnded {
		t.Errorf("%d ended copies are kept, want %d", len(m.ended), maxEnded)
	}
}

func TestShellMeaning(t *testing.T) {
	for status, want := range map[int]string{
		0: "", 1: "", 126: " (the command cannot be executed)", 127: " (the command is not found)", 128: "",
		137: " (killed by SIGKILL)", 143: " (killed by SIGTERM)", 255: "", -1: "",
	} {
		if got := shellMeaning(status); got != want {
			t.Errorf("shellSays(%d) = %q, want %q", status, got, want)
		}
	}
}

func TestHeartbeatIsNeverNull(t *testing.T) {
	data, err := json.Marshal(newMachine(Config{ID: "n"}, "boot").heartbeat())
	if want := `{"dea":"n","droplets":[]}`; err != nil || string(data) != want {
		t.Errorf("heartbeat = %s, %v, want %s", data, err, want)
	}
}

func TestEnvironment(t *testing.T) {
	env := environment(Config{ID: "n", Env: []string{"PATH=/mine", "HOME=/root"}}, StartRequest{App: "web", Instance: "x", Index: 2}, "/d")
	for _, want := range []string{"PATH=/mine", "HOME=/d", "WEIR_APP=web", "WEIR_INDEX=2", "WEIR_INSTANCE=x"} {
		n := 0
		for _, e := range env {
			if strings.HasPrefix(e, want[:strings.IndexByte(want, '=')+1]) {
				n++
				if e != want {
					t.Errorf("%s, want %s", e, want)
				}
			}
		}
		if n != 1 {
			t.Errorf("%s is there %d times", want, n)
		}
	}
}

func TestArgsRoundTrip(t *testing.T) {
	want := Config{
		Cluster: "c", Pool: "p", Group: "g", ID: "i-1", Resources: resource.Vector{1.5, 2048, 3, 4},
		Heartbeat: 3 * time.Second, StopGrace: time.Millisecond, DataDir: "/d",
		SelfFenceAfter: time.Minute, Fenced: true,
	}
	var got Config
	flags := flag.NewFlagSet("agent", flag.ContinueOnError)
	got.Bind(flags)
	if err := flags.Parse(want.Args()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if err := got.Validate(); err != nil {
		t.Errorf("Validate: %v", err)
	}
	if err := (Config{}).Validate(); err == nil {
		t.Error("an empty config is valid")
	}
}

func FuzzDecodeFacts(f *testing.F) {
	data, err := json.Marshal(pools.NodeFacts{ID: "n", Pool: "p", Resources: resource.Vector{1, 2, 3, 4}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"id":"a.b"}`))
	f.Add([]byte(`{"id":"n","resources":{"cpus":-1}}`))
	f.Add([]byte(`{"id":"n","conditions":[{"type":""}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		facts, err := DecodeFacts(data)
		if err == nil && (facts.ID == "" || facts.Resources.Validate() != nil || facts.Allocated.Validate() != nil ||
			len(facts.Conditions) > pools.MaxConditions) {
			t.Errorf("DecodeFacts(%q) = %+v", data, facts)
		}
	})
}

func FuzzStartRequest(f *testing.F) {
	f.Add([]byte(`{"app":"web","version":"v1","index":0,"instance":"x","command":"run","footprint":{"cpus":1}}`))
	f.Add([]byte(`{"app":"web","index":-1}`))
	f.Add([]byte(`{"surprise":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var r StartRequest
		if call.Decode(data, maxRequest, &r) != nil {
			return
		}
		m := newMachine(Config{ID: "n", Resources: resource.Vector{1, 1, 1, 1}}, "boot")
		if _, err := m.admit(time.Unix(1, 0), r); err != nil {
			return
		}
		h, err := json.Marshal(m.heartbeat())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := message.DecodeHeartbeat(h); err != nil {
			t.Errorf("admitted %+v, and the heartbeat is invalid: %v", r, err)
		}
	})
}
