package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/call"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/resource"
)

func TestEndedAreBounded(t *testing.T) {
	m := newMachine(Config{ID: "n"}, "boot")
	for i := range 3 * maxEnded {
		r := wire.StartRequest{App: "web", Index: i, Instance: "x" + strings.Repeat("y", i%100) + strings.Repeat("z", i/100), Command: "run"}
		if _, err := m.admit(time.Unix(1, 0), r); err != nil {
			t.Fatal(err)
		}
		if _, ok := m.exited(time.Unix(2, 0), r.Instance, outcome{}, false); !ok {
			t.Fatalf("exit of %s is not published", r.Instance)
		}
	}
	if len(m.dropped) != 2*maxEnded {
		t.Errorf("%d ended copies are dropped, want %d", len(m.dropped), 2*maxEnded)
	}
	if len(m.ended) != maxEnded || m.ended[maxEnded-1].Index != 3*maxEnded-1 {
		t.Errorf("%d ended copies are kept", len(m.ended))
	}
	if _, ok := m.exited(time.Unix(2, 0), "nobody", outcome{}, false); ok {
		t.Error("the exit of an unknown copy is published")
	}
}

// A node accepts no copy that its heartbeat could not list: receivers drop a larger heartbeat.
func TestCopiesFitInTheHeartbeat(t *testing.T) {
	m := newMachine(Config{ID: "n"}, "boot")
	var err error
	for i := 0; err == nil && i < 1000; i++ {
		_, err = m.admit(time.Unix(1, 0), wire.StartRequest{App: "web", Version: "v1", Index: i, Instance: fmt.Sprintf("%032d", i), Command: "run"})
	}
	if refused, ok := errors.AsType[*call.Error](err); !ok || refused.Code != wire.CodeNoRoom {
		t.Fatalf("admit = %v, want %s", err, wire.CodeNoRoom)
	}
	m.cordoned = true
	data, err := json.Marshal(m.heartbeat())
	if err != nil || len(data) > message.MaxNodeMessage || len(m.copies) < 300 {
		t.Errorf("%d copies in %d bytes, %v, want at least 300 in %d bytes", len(m.copies), len(data), err, message.MaxNodeMessage)
	}
	if whole, omitted := m.heartbeatWithin(); omitted != 0 || !bytes.Equal(whole, data) {
		t.Errorf("%d copies are omitted of %d bytes, although all fit", omitted, len(data))
	}
	for _, largest := range []int{message.MaxNodeMessage / 2, 1000, 100} { // the server accepts less now
		m.largest = largest
		data, omitted := m.heartbeatWithin()
		h, err := message.DecodeHeartbeat(data)
		if _, part := errors.AsType[*message.UnreadError](err); !part || len(data) > largest || len(data) < largest-250 && len(h.Beats) > 0 || len(h.Beats)+omitted != len(m.copies) {
			t.Errorf("%d bytes of %d, %d copies listed and %d omitted of %d: %v", len(data), largest, len(h.Beats), omitted, len(m.copies), err)
		}
		if c := listedAll(omitted, largest); len(c) != 1 || c[0].Failed || !c[0].Unknown {
			t.Errorf("conditions %+v", c)
		}
	}
}

// A failed index keeps its last output while other copies crash repeatedly.
func TestLastOfEachIndexIsKept(t *testing.T) {
	m := newMachine(Config{ID: "n"}, "boot")
	end := func(app string, index, n int) {
		r := wire.StartRequest{App: app, Index: index, Instance: fmt.Sprintf("%s-%d-%d", app, index, n), Command: "run"}
		if _, err := m.admit(time.Unix(1, 0), r); err != nil {
			t.Fatal(err)
		}
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
		want := []wire.CopyLog{{Instance: fmt.Sprintf("web-%d-2", index), Index: index, Ended: true, Lines: []string{}}}
		got := m.logs(wire.LogsRequest{App: "web", Index: &index})
		if diff := cmp.Diff(want, got); diff != "" {
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
	env := environment(Config{ID: "n", Env: []string{"PATH=/mine", "HOME=/root"}}, wire.StartRequest{App: "web", Instance: "x", Index: 2}, nil, "/d", "")
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
		SelfFenceAfter: time.Minute, Fenced: true, Keep: false, Type: "m7i.large", Zone: "eu-central-1a", Region: "eu-central-1",
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
	data, err := json.Marshal(api.NodeFacts{ID: "n", Pool: "p", Resources: resource.Vector{1, 2, 3, 4}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"id":"a.b"}`))
	f.Add([]byte(`{"id":"n","resources":{"cpus":-1}}`))
	f.Add([]byte(`{"id":"n","conditions":[{"type":""}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		facts, err := wire.DecodeFacts(data)
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
		var r wire.StartRequest
		if call.Decode(data, wire.MaxRequest, &r) != nil {
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

// A cordon of an earlier holder that arrives after the uncordon of the next one is rejected, or the
// node would stay cordoned for ever.
func TestLateCordon(t *testing.T) {
	t.Parallel()
	m, began := newMachine(Config{ID: "n1"}, "boot"), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		after    time.Duration
		on       bool
		at       pools.Sequence
		late     bool
		cordoned bool
	}{
		{0, true, pools.Sequence{Epoch: 2, Number: 1}, false, true},
		{1, true, pools.Sequence{Epoch: 2, Number: 1}, false, true}, // repeated
		{2, false, pools.Sequence{Epoch: 3, Number: 1}, false, false},
		{3, true, pools.Sequence{Epoch: 2, Number: 9}, true, false},
		{4, true, pools.Sequence{Epoch: 3, Number: 3}, false, true},
		{5, false, pools.Sequence{Epoch: 3, Number: 2}, true, true},
		{6, false, pools.Sequence{}, false, false}, // its sender numbers no requests
		{7, true, pools.Sequence{Epoch: 2, Number: 10}, true, false},
		{4 + lateFor, true, pools.Sequence{Epoch: 1, Number: 1}, false, true}, // the bus has lost its state
	} {
		_, err := m.cordon(began.Add(step.after), step.on, step.at)
		if (err != nil) != step.late || m.cordoned != step.cordoned {
			t.Errorf("%+v: %v, cordoned %t", step, err, m.cordoned)
		}
	}
}
